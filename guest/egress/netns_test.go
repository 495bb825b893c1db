package egress_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest/egress"
)

// inside is set in the child process that has a network namespace of its own.
const inside = "EGRESS_TEST_INSIDE"

// The filter in a kernel, in a namespace with one interface and a default route
// that leads nowhere.
func TestClose(t *testing.T) {
	if os.Getenv(inside) != "" {
		closeInside(t)
		return
	}
	_, err := exec.LookPath("ip")
	if err == nil && os.Geteuid() != 0 {
		err = errors.New("this user may not make a network namespace")
	}
	if err != nil {
		require.NotEqual(t, "docker", os.Getenv("MCP_SANDBOX_REQUIRE"), "%v", err)
		t.Skipf("needs root and the ip command (iproute2): %v", err)
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClose$", "-test.v", "-test.timeout=60s")
	c.Env = append(os.Environ(), inside+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func closeInside(t *testing.T) {
	t.Helper()
	for _, command := range []string{
		"link set lo up", "link add e0 type veth peer name e1", "link set e0 up", "link set e1 up",
		"address add 198.51.100.1/24 dev e0", "address add fd00:1::1/64 dev e0 nodad", "route add default via 198.51.100.254",
	} {
		out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(command)...).CombinedOutput()
		require.NoError(t, err, "ip %s: %s", command, out)
	}
	connected, err := egress.Connected()
	require.NoError(t, err)
	require.Error(t, egress.Probe(t.Context()), "nothing refuses yet")
	denied, err := egress.Denied(connected, list("203.0.113.9/32 192.0.2.64/26"))
	require.NoError(t, err)
	require.NoError(t, egress.Close(list("203.0.113.10/32")), "what was set before is replaced")
	require.NoError(t, egress.Close(denied))
	require.NoError(t, egress.Probe(t.Context()))

	closed := []string{
		"203.0.113.9:80", "192.0.2.64:80", "192.0.2.127:80", "169.254.169.254:80", "198.51.100.254:22", "198.51.100.7:7777", "[fd00:1::2]:80", "[fe80::1%e0]:80",
	}
	for _, device := range []string{"", "e0"} {
		for _, address := range closed {
			require.ErrorIs(t, connect(t, device, address), unix.ECONNREFUSED, "%s by %q", address, device)
			require.Error(t, send(t, device, address), "%s by %q", address, device)
		}
		for _, address := range []string{"203.0.113.10:80", "203.0.113.8:80", "192.0.2.63:80", "192.0.2.128:80"} {
			require.NotErrorIs(t, connect(t, device, address), unix.ECONNREFUSED, "%s by %q is nobody's, and not closed", address, device)
		}
		for _, address := range []string{"255.255.255.255:9", "198.51.100.255:9", "224.0.0.251:5353"} {
			require.Error(t, send(t, device, address), "%s by %q", address, device)
		}
	}
	own, err := net.Listen("tcp", "198.51.100.1:0")
	require.NoError(t, err)
	defer func() { _ = own.Close() }()
	require.NoError(t, connect(t, "", own.Addr().String()), "the sandbox reaches itself")

	// Root asks a name server for the engine; nobody else does.
	require.NoError(t, send(t, "", "169.254.169.254:53"))
	require.Error(t, send(t, "", "169.254.169.254:123"))
	require.Error(t, asNobody(t, "169.254.169.254:53"))
	require.NoError(t, asNobody(t, "203.0.113.10:53"))
}

func dialer(t *testing.T, device string) *net.Dialer {
	t.Helper()
	return &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
			if device != "" {
				failed = errors.Join(failed, unix.BindToDevice(int(fd), device))
			}
		})
		return errors.Join(err, failed)
	}}
}

// connect gives how a connection failed within a moment.
func connect(t *testing.T, device, address string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	conn, err := dialer(t, device).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// send gives how a datagram was refused, at once or by the answer to it.
func send(t *testing.T, device, address string) error {
	t.Helper()
	conn, err := dialer(t, device).DialContext(t.Context(), "udp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

const nobody = "EGRESS_TEST_NOBODY"

// asNobody sends as another user.
func asNobody(t *testing.T, address string) error {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestSendAsNobody$", "-test.timeout=20s")
	c.Env = append(os.Environ(), nobody+"="+address)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	c.Dir = "/"
	out, err := c.CombinedOutput()
	t.Logf("%s: %v %s", address, err, out)
	return err
}

func TestSendAsNobody(t *testing.T) {
	address := os.Getenv(nobody)
	if address == "" {
		t.Skip("a part of TestClose")
	}
	require.NoError(t, send(t, "", address))
}
