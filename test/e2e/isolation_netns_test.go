package e2e_test

import (
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// listenIn listens in a named network namespace, and says "far away" to whoever
// connects.
func listenIn(t *testing.T, namespace, address string) string {
	t.Helper()
	listening := make(chan net.Listener, 1)
	go func() {
		defer close(listening)
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		f, err := os.Open("/run/netns/" + namespace)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = f.Close() }()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Error(err)
			return
		}
		listening <- l
	}()
	l, ok := <-listening
	require.True(t, ok, "nothing listens")
	t.Cleanup(func() { _ = l.Close() })
	go answerAll(l, "far away\n")
	return l.Addr().String()
}
