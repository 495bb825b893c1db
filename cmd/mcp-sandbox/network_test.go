package main

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNetworkFlags(t *testing.T) {
	good := networkConfig{dnsText: []string{"9.9.9.9", "2620:fe::fe"}, denyText: []string{"10.0.0.0/8", "192.0.2.7"}}
	require.NoError(t, good.check())
	require.Equal(t, []netip.Addr{netip.MustParseAddr("9.9.9.9"), netip.MustParseAddr("2620:fe::fe")}, good.dns)
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32")}, good.deny)
	for text, bad := range map[string]networkConfig{
		"--dns":                 {dnsText: []string{"dns.example"}},
		`"127.0.0.53"`:          {dnsText: []string{"127.0.0.53"}},
		"neither an address":    {denyText: []string{"router"}},
		"no IPv6 at all":        {denyText: []string{"fd00::/8"}},
		"leave full out of":     {denyText: []string{"0.0.0.0/0"}},
		`"10.0.0.0/8,10.1.0.0"`: {denyText: []string{"10.0.0.0/8,10.1.0.0"}},
	} {
		require.ErrorContains(t, bad.check(), text)
	}
}
