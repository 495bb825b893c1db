package e2e_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// With network full a sandbox reaches the world, and neither its neighbours, nor
// the engine's host by any of its addresses, nor a cloud's metadata service.
func TestF4NetworkFull(t *testing.T) {
	t.Parallel()
	beyond, addresses := farAway(t), hostAddresses(t)
	s := harness.Start(t, "--allow-network", "none,full")
	c := s.Client()
	full := harness.Args{"network": "full"}
	one, two := c.StartSession(t, full), c.StartSession(t, full)
	require.Equal(t, "full", c.OK(t, "get_session", harness.Args{"session_id": one}).Str("network"))

	// One listens and reaches itself; the other does not reach it.
	neighbour := strings.TrimSpace(c.Run(t, one, "ip -4 addr show eth0 | awk '/inet / {sub(\"/.*\", \"\", $2); print $2}'").Str("stdout"))
	c.Run(t, one, "while :; do echo neighbour | nc -l -p 7777; done", harness.Args{"wait_seconds": 0})
	require.Equal(t, "neighbour\n", c.Run(t, one, "until nc -w 1 "+neighbour+" 7777 </dev/null; do :; done", harness.Args{"timeout_seconds": 20}).Str("stdout"))

	host, err := net.Listen("tcp", "0.0.0.0:0") // something of the host's that listens everywhere
	require.NoError(t, err)
	defer func() { _ = host.Close() }()
	go answerAll(host, "host\n")
	_, port, err := net.SplitHostPort(host.Addr().String())
	require.NoError(t, err)
	gateway := strings.TrimSpace(c.Run(t, two, "ip route | awk '/^default/ {print $3}'").Str("stdout"))
	require.NotEmpty(t, gateway, "the route to the world is there")
	targets := []string{neighbour + " 7777", gateway + " " + port, "169.254.169.254 80", "100.100.100.200 80"}
	for _, a := range addresses {
		targets = append(targets, a+" "+port)
	}
	for _, target := range targets {
		r, took := c.Timed(t, "run_command", harness.Args{"session_id": two, "command": "nc -w 10 " + target + " </dev/null", "timeout_seconds": 20})
		require.Equal(t, 1, r.Num("exit_code"), "%s: %s", target, r.Text)
		require.Contains(t, r.Str("stderr"), "refused", target)
		require.Empty(t, r.Str("stdout"), target)
		require.Less(t, took, 5*time.Second, "%s: refused, and not waited for", target)
		require.Less(t, r.Num("duration_ms"), 1000, "%s: refused at once", target)
	}
	require.NotEqual(t, 0, c.Run(t, two, "nc -w 2 host.docker.internal "+port+" </dev/null", harness.Args{"timeout_seconds": 20}).Num("exit_code"))
	require.Equal(t, "far away\n", c.Run(t, two, "nc -w 5 "+strings.Replace(beyond, ":", " ", 1)+" </dev/null").Str("stdout"), "the world is open")

	// Nothing of that can be undone, and nothing more is allowed than without.
	status := c.Run(t, two, "cat /proc/self/status /proc/1/status | grep -E '^(Cap(Prm|Eff|Bnd)|NoNewPrivs)'").Str("stdout")
	require.Equal(t, strings.Join([]string{
		"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t00000000000000e1", "NoNewPrivs:\t1",
		"CapPrm:\t00000000000000e1", "CapEff:\t00000000000000e1", "CapBnd:\t00000000000000e1", "NoNewPrivs:\t1", "",
	}, "\n"), status)
	for _, try := range []string{
		"ip route add 169.254.169.254 via " + gateway, "ip link set eth0 down", "unshare -n true", "ping -c 1 -W 1 " + gateway,
	} {
		require.NotEqual(t, 0, c.Run(t, two, try).Num("exit_code"), try)
	}

	// A snapshot takes neither the network nor the rights along.
	snap := c.OK(t, "snapshot", harness.Args{"session_id": two}).Str("snapshot_id")
	c.OK(t, "restore_snapshot", harness.Args{"session_id": two, "snapshot_id": snap})
	require.Contains(t, c.Run(t, two, "nc -w 10 169.254.169.254 80 </dev/null").Str("stderr"), "refused", "closed in a restored sandbox too")
	fork := c.StartSession(t, harness.Args{"snapshot_id": snap})
	require.Equal(t, "none", string(s.Container(t, fork).HostConfig.NetworkMode))
	require.NotContains(t, strings.Join(s.Container(t, fork).HostConfig.CapAdd, " "), "NET_ADMIN")
}

// hostAddresses are this machine's, where the engine runs too.
func hostAddresses(t *testing.T) []string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	var found []string
	for _, a := range all {
		if p := netip.MustParsePrefix(a.String()); p.Addr().Is4() && !p.Addr().IsLoopback() {
			found = append(found, p.Addr().String())
		}
	}
	return found
}

// answerAll says text to whoever connects.
func answerAll(l net.Listener, text string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte(text))
		_ = conn.Close()
	}
}

// farAway makes a machine beyond this one: a network namespace behind a pair of
// interfaces, with something that listens. It gives the address.
func farAway(t *testing.T) string {
	t.Helper()
	_, err := exec.LookPath("ip")
	if err == nil && os.Geteuid() != 0 {
		err = errors.New("not root")
	}
	if err != nil {
		harness.Missing(t, "no way to make a network beside this one (root and iproute2): "+err.Error())
	}
	name := fmt.Sprintf("mcpsb%d", os.Getpid())
	ip := func(args string) error {
		out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
		return nil
	}
	require.NoError(t, ip("netns add "+name))
	t.Cleanup(func() { _ = ip("netns delete " + name) }) // the pair goes with it
	const here, there = "198.51.100.205/30", "198.51.100.206"
	for _, args := range []string{
		"link add " + name + " type veth peer name far netns " + name, "address add " + here + " dev " + name, "link set " + name + " up",
		"-n " + name + " address add " + there + "/30 dev far", "-n " + name + " link set far up",
		"-n " + name + " route add default via 198.51.100.205",
	} {
		require.NoError(t, ip(args))
	}
	return listenIn(t, name, there)
}
