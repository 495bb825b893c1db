package egress

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Names of what Close makes; a second Close replaces it.
const (
	tableName = "mcp-sandbox"
	outChain  = "out"
	denyChain = "deny"
)

// dnsPort is where dockerd, as root and inside the sandbox's namespace, asks the
// host's resolvers for the sandbox's engine-provided one. On some clouds, and with
// a resolver of the host's own, that is an address closed to the sandbox.
const dnsPort = 53

// Close makes the kernel refuse packets to denied, and every IPv6 packet, at
// once: TCP by a reset, all else by an ICMP error. What the sandbox sends to itself
// is left alone. It is done as a whole or not at all.
func Close(denied []netip.Prefix) error {
	return commit(ruleset(denied))
}

// ruleset is the messages of one transaction:
//
//	table inet mcp-sandbox {
//	  chain deny {
//	    meta l4proto tcp reject with tcp reset
//	    reject with icmpx admin-prohibited
//	  }
//	  chain out {
//	    type filter hook output priority filter; policy accept;
//	    oifname "lo" accept
//	    meta skuid 0 meta l4proto {udp, tcp} th dport 53 accept
//	    meta nfproto ipv6 goto deny
//	    ip daddr 169.254.0.0/16 goto deny   # and so on
//	  }
//	}
func ruleset(denied []netip.Prefix) []message {
	table := str(unix.NFTA_TABLE_NAME, tableName)
	chain := func(name string, more ...attr) []attr {
		return append([]attr{str(unix.NFTA_CHAIN_TABLE, tableName), str(unix.NFTA_CHAIN_NAME, name)}, more...)
	}
	batch := []message{
		{unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, []attr{table}}, // so that there is one to delete
		{unix.NFT_MSG_DELTABLE, 0, []attr{table}},
		{unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, []attr{table}},
		{unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, chain(denyChain)},
		{unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, chain(outChain,
			nest(unix.NFTA_CHAIN_HOOK, be32(unix.NFTA_HOOK_HOOKNUM, unix.NF_INET_LOCAL_OUT), be32(unix.NFTA_HOOK_PRIORITY, 0)),
			be32(unix.NFTA_CHAIN_POLICY, 1), // accept
			str(unix.NFTA_CHAIN_TYPE, "filter"))},
		rule(denyChain, append(metaIs(unix.NFT_META_L4PROTO, []byte{unix.IPPROTO_TCP}), reject(unix.NFT_REJECT_TCP_RST, 0))...),
		rule(denyChain, reject(unix.NFT_REJECT_ICMPX_UNREACH, unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED)),
		rule(outChain, append(metaIs(unix.NFT_META_OIFNAME, interfaceName("lo")), accept())...),
	}
	for _, proto := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
		match := metaIs(unix.NFT_META_SKUID, native32(0))
		match = append(match, metaIs(unix.NFT_META_L4PROTO, []byte{proto})...)
		match = append(match, payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2), equals([]byte{0, dnsPort}))
		batch = append(batch, rule(outChain, append(match, accept())...))
	}
	batch = append(batch, rule(outChain, append(metaIs(unix.NFT_META_NFPROTO, []byte{unix.NFPROTO_IPV6}), jump(denyChain))...))
	for _, p := range denied {
		match := append(metaIs(unix.NFT_META_NFPROTO, []byte{unix.NFPROTO_IPV4}), destination(p)...)
		batch = append(batch, rule(outChain, append(match, jump(denyChain))...))
	}
	return batch
}

// destination matches an IPv4 header's destination, at byte 16.
func destination(p netip.Prefix) []attr {
	match := []attr{payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 16, 4)}
	if p.Bits() < 32 {
		match = append(match, masked(^uint32(0)<<(32-p.Bits())))
	}
	address := p.Addr().As4()
	return append(match, equals(address[:]))
}
