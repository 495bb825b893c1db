package harness

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Background is a data dir whose server is started by its clients of
// `mcp-sandbox stdio`.
type Background struct {
	DataDir string
	// Env are the settings of server and clients.
	Env []string

	t *testing.T
}

// NewBackground makes a data dir, with no server yet. The server that clients
// start, and what their sessions leave, are removed when the test ends. env comes
// on top.
func NewBackground(t *testing.T, env ...string) *Background {
	t.Helper()
	b := &Background{t: t, DataDir: filepath.Join(t.TempDir(), "data")}
	b.Env = append([]string{
		"MCP_SANDBOX_DATA_DIR=" + b.DataDir, "MCP_SANDBOX_LISTEN=127.0.0.1:0", "MCP_SANDBOX_TEMPORAL_UI=off",
		"MCP_SANDBOX_DEFAULT_IMAGE=" + TestImage, "MCP_SANDBOX_IDLE_EXIT=2m",
	}, env...)
	s := &Server{t: t, docker: Docker(t), DataDir: b.DataDir}
	t.Cleanup(func() {
		if pid := b.PID(); pid != 0 {
			b.Shutdown()
		}
		s.lastInstallation = b.installation()
		s.sweep()
	})
	return b
}

// Log is what the servers have printed.
func (b *Background) Log() string {
	text, _ := os.ReadFile(filepath.Join(b.DataDir, "server.log"))
	return string(text)
}

func (b *Background) installation() string {
	for line := range strings.Lines(b.Log()) {
		if rest, ok := strings.CutPrefix(line, "Installation "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// Server is the running server, to look at its sandboxes.
func (b *Background) Server() *Server {
	return &Server{t: b.t, docker: Docker(b.t), DataDir: b.DataDir, lastInstallation: b.installation()}
}

// PID is the running server's, or 0.
func (b *Background) PID() int {
	var holder struct {
		PID int `json:"pid"`
	}
	text, err := os.ReadFile(filepath.Join(b.DataDir, "lock"))
	if err != nil || json.Unmarshal(text, &holder) != nil {
		return 0
	}
	command, err := os.ReadFile(filepath.Join("/proc", itoa(holder.PID), "cmdline"))
	if err != nil || !strings.Contains(string(command), b.DataDir) { // a zombie has none
		return 0
	}
	return holder.PID
}

// Kill kills the server with SIGKILL, and Stop ends it with SIGTERM; both return
// when it has ended.
func (b *Background) Kill() { b.signal(syscall.SIGKILL) }

// Stop ends the server with SIGTERM.
func (b *Background) Stop() { b.signal(syscall.SIGTERM) }

func (b *Background) signal(sig syscall.Signal) {
	b.t.Helper()
	pid := b.PID()
	require.NotZero(b.t, pid, "no server runs:\n%s", b.Log())
	require.NoError(b.t, syscall.Kill(pid, sig))
	b.AwaitEnd(pid, 30*time.Second)
}

// AwaitEnd waits until the server with this pid has ended.
func (b *Background) AwaitEnd(pid int, most time.Duration) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.PID() != pid }, most, 10*time.Millisecond, "the server lives:\n%s", b.Log())
}

// Shutdown runs `mcp-sandbox shutdown` and gives what it prints.
func (b *Background) Shutdown() string {
	b.t.Helper()
	cmd := exec.Command(Binary(b.t), "shutdown")
	cmd.Env = append(os.Environ(), b.Env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.t.Errorf("shutdown: %v: %s\n%s", err, stderr.String(), b.Log())
	}
	return string(out)
}
