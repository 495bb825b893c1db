package supervisor_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
	"github.com/mcp-sandbox/mcp-sandbox/guest/supervisor"
)

// fileOp, as the first argument, makes the test binary the child that performs
// a file operation.
const fileOp = "file-op"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fileOp {
		if err := files.Serve(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Orphans come to this process, as they come to PID 1.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

var fence = guest.Fence{Session: "s_test", Incarnation: 1}

func options(t *testing.T) supervisor.Options {
	t.Helper()
	home := t.TempDir()
	return supervisor.Options{
		Fence: fence, State: t.TempDir(), Home: home, Env: os.Environ(),
		FileOp: []string{"/proc/self/exe", fileOp}, PeerUID: uint32(os.Getuid()),
	}
}

func start(t *testing.T, opts supervisor.Options) *supervisor.Supervisor {
	t.Helper()
	s, err := supervisor.New(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

var calls atomic.Int64

func callID() string { return fmt.Sprintf("call-%d", calls.Add(1)) }

// request waits for the end and takes all output.
func request(command string) guest.RunRequest {
	return guest.RunRequest{CallID: callID(), Command: command, WaitMS: 20_000, MaxOutput: 64 << 10}
}

func run(t *testing.T, api guest.API, req guest.RunRequest) guest.Command {
	t.Helper()
	c, err := api.Run(t.Context(), req)
	require.NoError(t, err, "%.100s", req.Command)
	return c
}

func sh(t *testing.T, api guest.API, command string) string {
	t.Helper()
	c := run(t, api, request(command))
	require.Equal(t, guest.StatusExited, c.Status)
	return string(c.Stdout.Head) + string(c.Stdout.Tail)
}

// gone waits until no process has mark in its command line.
func gone(t *testing.T, mark string) {
	t.Helper()
	require.Eventually(t, func() bool { return !alive(mark) }, 5*time.Second, 5*time.Millisecond)
}

func alive(mark string) bool {
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		line, err := os.ReadFile("/proc/" + d.Name() + "/cmdline")
		if err == nil && strings.Contains(string(line), mark) {
			return true
		}
	}
	return false
}

// mark makes a sleep that alive finds, and no other.
func mark() string { return fmt.Sprintf("%d.%06d", 1000+os.Getpid(), calls.Add(1)) }
