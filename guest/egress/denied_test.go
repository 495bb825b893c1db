package egress_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest/egress"
)

func list(text string) []netip.Prefix {
	var all []netip.Prefix
	for s := range strings.FieldsSeq(text) {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

func TestDenied(t *testing.T) {
	always, err := egress.Denied(nil, nil)
	require.NoError(t, err)
	for _, address := range []string{
		"169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.251", "255.255.255.255", "0.250.250.254",
	} {
		require.True(t, slices.ContainsFunc(always, func(p netip.Prefix) bool { return p.Contains(netip.MustParseAddr(address)) }), address)
	}
	for name, c := range map[string]struct {
		connected, named, more, fails string
	}{
		"nothing":                 {},
		"host bits are cut off":   {connected: "172.18.0.2/16", more: "172.18.0.0/16"},
		"what is inside is left":  {connected: "172.18.0.2/16", named: "172.18.0.1/32 172.18.4.0/24", more: "172.18.0.0/16"},
		"a wider one comes last":  {named: "10.1.0.0/16 10.0.0.0/8", more: "10.0.0.0/8"},
		"duplicates":              {connected: "10.0.0.1/32", named: "10.0.0.1/32", more: "10.0.0.1/32"},
		"IPv6 is closed anyway":   {connected: "fd00::2/64", named: "fe80::1/64"},
		"IPv4 in IPv6":            {named: "::ffff:10.0.0.1/32", more: "10.0.0.1/32"},
		"the sandbox itself":      {named: "127.0.0.0/8"},
		"all of it":               {named: "0.0.0.0/0", fails: "give no network"},
		"inside what always is":   {named: "169.254.1.0/24"},
		"neighbours stay as they": {named: "10.0.0.0/25 10.0.0.128/25", more: "10.0.0.0/25 10.0.0.128/25"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := egress.Denied(list(c.connected), list(c.named))
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			require.ElementsMatch(t, append(list(c.more), always...), got)
			require.True(t, slices.IsSortedFunc(got, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }))
		})
	}
	var many []netip.Prefix
	for i := range egress.MaxDenied {
		many = append(many, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32))
	}
	_, err = egress.Denied(nil, many)
	require.ErrorContains(t, err, "at most 512")
}

func TestGateways(t *testing.T) {
	const table = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010012AC	0003	0	0	0	00000000	0	0	0
eth0	000012AC	00000000	0001	0	0	0	0000FFFF	0	0	0
`
	got, err := egress.Gateways(strings.NewReader(table))
	require.NoError(t, err)
	require.Equal(t, list("172.18.0.1/32"), got)
	_, err = egress.Gateways(strings.NewReader("eth0 00000000 01\n"))
	require.Error(t, err)
}
