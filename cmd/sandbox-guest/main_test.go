package main_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

var binary string // the built guest

func TestMain(m *testing.M) {
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func build(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "guest")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the guest: %w: %s", err, out)
	}
	return m.Run(), nil
}

var calls atomic.Int64

func callID() string { return fmt.Sprintf("call-%d", calls.Add(1)) }

// stream is the stdio of a `dial-stdio`.
type stream struct {
	io.Reader
	io.WriteCloser
	cmd *exec.Cmd
}

func (s stream) Close() error {
	_ = s.WriteCloser.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	return nil
}

func dialStdio(args ...string) guest.Dial {
	return func(context.Context) (io.ReadWriteCloser, error) {
		cmd := exec.Command(args[0], args[1:]...)
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		return stream{Reader: out, WriteCloser: in, cmd: cmd}, cmd.Start()
	}
}

// local is a guest that runs as an ordinary process of this machine.
type local struct {
	*guest.Client
	cmd *exec.Cmd
}

func startLocal(t *testing.T, dir string, incarnation int, extra ...string) *local {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("the guest must be root to become the sandbox user: run the tests as root, or see TestContainer")
	}
	args := append([]string{
		"init", "--session", "s", "--incarnation", strconv.Itoa(incarnation),
		"--state", filepath.Join(dir, "state"), "--home", filepath.Join(dir, "home"),
	}, extra...)
	g := &local{cmd: exec.Command(binary, args...)}
	g.cmd.Stderr = t.Output()
	require.NoError(t, g.cmd.Start())
	t.Cleanup(func() {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
	})
	g.Client = guest.NewClient(dialStdio(binary, "dial-stdio", "--state", filepath.Join(dir, "state")),
		guest.Fence{Session: "s", Incarnation: incarnation}, guest.ClientOptions{})
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// openDir is a temporary directory that the sandbox user may enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}

// A guest killed in mid-command knows afterwards what had ended, what had begun
// and what had not, and runs nothing twice (G2).
func TestKilledGuest(t *testing.T) {
	dir := openDir(t)
	g := startLocal(t, dir, 1)
	done := guest.RunRequest{CallID: callID(), Command: "echo x >> done; cat done", WaitMS: 10_000, MaxOutput: 100}
	before, err := g.Run(t.Context(), done)
	require.NoError(t, err)
	begun := guest.RunRequest{CallID: callID(), Command: "echo x >> begun; echo so far; exec sleep 3", MaxOutput: 100}
	_, err = g.Run(t.Context(), begun)
	require.NoError(t, err)
	out, err := g.Output(t.Context(), guest.OutputRequest{CallID: begun.CallID, Stream: guest.Stdout, MaxBytes: 100, WaitMS: 10_000})
	require.NoError(t, err)
	require.Equal(t, "so far\n", string(out.Data))
	require.NoError(t, g.cmd.Process.Kill())
	_ = g.cmd.Wait()
	_, err = g.Usage(t.Context())
	require.ErrorIs(t, err, guest.ErrUnreachable)

	g = startLocal(t, dir, 2)
	after, err := g.Run(t.Context(), done)
	require.NoError(t, err)
	require.Equal(t, before, after)
	lost, err := g.Run(t.Context(), begun)
	require.NoError(t, err)
	require.Equal(t, guest.StatusLost, lost.Status)
	require.Equal(t, "so far\n", string(lost.Stdout.Head))
	for _, name := range []string{"done", "begun"} {
		f, err := g.ReadFile(t.Context(), guest.ReadFileRequest{Path: name, MaxBytes: 100})
		require.NoError(t, err)
		require.Equal(t, "x\n", string(f.Content))
	}
}

func TestInitEndsOnTERM(t *testing.T) { // D2
	g := startLocal(t, openDir(t), 1)
	_, err := g.Run(t.Context(), guest.RunRequest{CallID: callID(), Command: "trap '' TERM; sleep 100; sleep 100"})
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, g.cmd.Wait())
	require.Less(t, time.Since(began), 1500*time.Millisecond)
}

// Nobody is left to end the session: the guest does.
func TestLifetime(t *testing.T) {
	g := startLocal(t, openDir(t), 1, "--lifetime", "1", "--lifetime-grace", "0")
	ended := make(chan error, 1)
	go func() { ended <- g.cmd.Wait() }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(5 * time.Second):
		t.Fatal("the guest lives on")
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"nothing"},
		{"init"},
		{"init", "--session", "s"},
		{"init", "--session", "s", "--incarnation", "1", "--uid", "0"},
		{"init", "--lifetime", "-1"},
		{"init", "stray"},
	} {
		require.Error(t, exec.Command(binary, args...).Run(), "%v", args)
	}
	out, err := exec.Command(binary, "version").Output()
	require.NoError(t, err)
	data, err := os.ReadFile(binary)
	require.NoError(t, err)
	require.Equal(t, sha(data)[:12]+"\n", string(out))
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
