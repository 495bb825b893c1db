package egress

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// MaxDenied bounds the addresses of one sandbox: they go to the kernel in one
// message.
const MaxDenied = 512

// always are closed whatever the host. IPv6 is closed as a whole.
var always = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),          // "this host"; some engines' virtual machines use it for their host
	netip.MustParsePrefix("169.254.0.0/16"),     // link-local: the metadata services of most clouds
	netip.MustParsePrefix("100.100.100.200/32"), // metadata
	netip.MustParsePrefix("168.63.129.16/32"),   // metadata
	netip.MustParsePrefix("192.0.0.192/32"),     // metadata
	netip.MustParsePrefix("224.0.0.0/4"),        // multicast: the host may listen
	netip.MustParsePrefix("240.0.0.0/4"),        // reserved, and the broadcast address
}

// Denied merges what is closed always with the networks that the namespace is
// connected to (its gateway is the engine's host, the rest are neighbours) and
// what the caller names. The result is sorted and holds no prefix inside another.
// IPv6 prefixes are left out: all of it is closed. An error is more than MaxDenied,
// or a prefix that is everything.
func Denied(connected, named []netip.Prefix) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, p := range slices.Concat(always, connected, named) {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits())
		switch {
		case !p.Addr().Is4():
			continue
		case p.Bits() < 1:
			return nil, fmt.Errorf("%s is no part of the network: to close all of it, give no network", p)
		case p.Addr().IsLoopback():
			continue // the sandbox's own
		}
		all = append(all, p.Masked())
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	kept := all[:0]
	for _, p := range all {
		if len(kept) == 0 || !kept[len(kept)-1].Overlaps(p) { // sorted: an overlap is being inside
			kept = append(kept, p)
		}
	}
	if len(kept) > MaxDenied {
		return nil, fmt.Errorf("%d addresses are to be closed, at most %d can be: name networks instead", len(kept), MaxDenied)
	}
	return kept, nil
}

// Connected lists the networks of this namespace's interfaces but the loopback
// one, and the gateways of its routes.
func Connected() ([]netip.Prefix, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var found []netip.Prefix
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				found = append(found, p)
			}
		}
	}
	file, err := os.Open("/proc/net/route")
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	defer func() { _ = file.Close() }()
	via, err := gateways(file)
	return append(found, via...), err
}

// gateways reads a table as in /proc/net/route: a heading, then interface,
// destination, gateway and more, with addresses as hexadecimal numbers in the
// order of this machine's bytes.
func gateways(table io.Reader) ([]netip.Prefix, error) {
	var found []netip.Prefix
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || fields[0] == "Iface" {
			continue
		}
		b, err := hex.DecodeString(fields[2])
		if err != nil || len(b) != 4 {
			return nil, fmt.Errorf("list routes: gateway %q", fields[2])
		}
		slices.Reverse(b) // every machine with a guest is little-endian
		if a := netip.AddrFrom4([4]byte(b)); !a.IsUnspecified() {
			found = append(found, netip.PrefixFrom(a, 32))
		}
	}
	return found, lines.Err()
}
