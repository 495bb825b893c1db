package main

import (
	"net/netip"

	"github.com/spf13/pflag"
)

// networkConfig are the flags for sandboxes with network full.
type networkConfig struct {
	dnsText, denyText []string

	dns  []netip.Addr // after check
	deny []netip.Prefix
}

func (n *networkConfig) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&n.dnsText, "dns", nil, "name servers of sandboxes with network full, as addresses (default those of the engine's host)")
	f.StringSliceVar(&n.denyText, "deny-address", nil, "addresses or networks closed to sandboxes with network full, such as 10.0.0.0/8, beside the engine's host")
}

// check parses what was given, and refuses what closes nothing or everything.
func (n *networkConfig) check() error {
	n.dns, n.deny = nil, nil
	for _, s := range n.dnsText {
		a, err := netip.ParseAddr(s)
		if err != nil || a.IsUnspecified() || a.IsLoopback() {
			return usagef("--dns: %q is no address of a name server that a sandbox can reach, such as 9.9.9.9", s)
		}
		n.dns = append(n.dns, a)
	}
	for _, s := range n.denyText {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, addressErr := netip.ParseAddr(s)
			if addressErr != nil {
				return usagef("--deny-address: %q is neither an address nor a network such as 10.0.0.0/8", s)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		switch {
		case !p.Addr().Is4():
			return usagef("--deny-address: %q has no effect: sandboxes have no IPv6 at all", s)
		case p.Bits() == 0:
			return usagef("--deny-address: %q is everything; leave full out of --allow-network instead", s)
		}
		n.deny = append(n.deny, p)
	}
	return nil
}
