package docker_test

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// A name server on the engine's host, as on some clouds and many desks, serves
// sandboxes through the engine; asked directly it is as closed as all of the host.
func TestNameServerOfTheHost(t *testing.T) {
	server := nameServer(t)
	l := newLab(t, func(o *docker.Options) { o.DNS = []netip.Addr{server} })
	_, api := create(t, l.Backend, spec(func(s *activities.SandboxSpec) { s.Network = session.NetworkFull }))
	require.Contains(t, sh(t, api, "nslookup host.test. 127.0.0.11"), "203.0.113.53")
	fails(t, api, "nslookup host.test. "+server.String())
}

// nameServer answers every question with 203.0.113.53, on an address of this
// host.
func nameServer(t *testing.T) netip.Addr {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		p := netip.MustParsePrefix(a.String())
		if !p.Addr().Is4() || !p.Addr().IsGlobalUnicast() {
			continue
		}
		conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.Addr(), 53)))
		if err != nil {
			require.NotEqual(t, "docker", os.Getenv("MCP_SANDBOX_REQUIRE"), "%v", err)
			t.Skipf("needs root and a free port 53: %v", err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			answerNames(conn)
		}()
		t.Cleanup(func() {
			_ = conn.Close()
			<-done
		})
		return p.Addr()
	}
	t.Skip("needs a host with an address")
	return netip.Addr{}
}

func answerNames(conn *net.UDPConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if n < 12 {
			continue
		}
		// The question as it came, without what follows it, and to a question for
		// an address one answer: name as at byte 12, type A, class IN, 1 s.
		end := 12 + bytes.IndexByte(buf[12:n], 0) + 5
		if end < 12+5 || end > n {
			continue
		}
		answers := byte(0)
		reply := slices.Clone(buf[:end])
		if buf[end-3] == 1 { // type A
			answers = 1
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 203, 0, 113, 53)
		}
		copy(reply[2:12], []byte{0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0})
		_, _ = conn.WriteToUDPAddrPort(reply, from)
	}
}
