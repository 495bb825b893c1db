package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// The process ends within 2 s of whatever ends it, with a call under way; the
// session and the command go on.
func TestStdioEnds(t *testing.T) {
	t.Parallel()
	b := harness.NewBackground(t)
	const shell = `exec 3<&0; "$0" "$@" <&3 & exec 3<&-; wait`
	for name, row := range map[string]struct {
		program string // "" is the binary itself
		end     func(*harness.Stdio)
	}{
		"end of stdin":      {"", (*harness.Stdio).CloseStdin},
		"TERM":              {"", func(s *harness.Stdio) { s.Signal(syscall.SIGTERM) }},
		"INT":               {"", func(s *harness.Stdio) { s.Signal(syscall.SIGINT) }},
		"end of its parent": {"sh", func(s *harness.Stdio) { s.Signal(syscall.SIGKILL) }},
	} {
		session := "s" + name[:3] // a name
		c := func() *harness.Stdio {
			if row.program == "" {
				return b.Stdio("--session", session)
			}
			return b.StdioOf(row.program, "-c", shell, harness.Binary(t), "stdio", "--session", session)
		}()
		c.Go(t, "run_command", harness.Args{"command": "touch began; sleep 3; touch finished"}, nil)
		c.Run(t, "until [ -e began ]; do sleep 0.02; done")
		began := time.Now()
		row.end(c)
		c.Ended(t, 2*time.Second)
		t.Logf("%s: ended after %s", name, time.Since(began))
		r := b.Stdio("--session", session).Run(t, "until [ -e finished ]; do sleep 0.02; done", harness.Args{"timeout_seconds": 10})
		require.Equal(t, "exited", r.Str("status"), name)
	}
}

// A client of a newer version replaces the server in the background; calls of the
// older one under way are answered, and it goes on with the newer server.
func TestStdioUpgrade(t *testing.T) {
	t.Parallel()
	b := harness.NewBackground(t)
	newer := filepath.Join(t.TempDir(), "mcp-sandbox")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", newer,
		"-ldflags", "-s -w -X main.version=v999.0.0 -X main.commitTime=2999-01-01T00:00:00Z", "../../cmd/mcp-sandbox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	old := b.Stdio()
	id := old.Run(t, "true").Session()
	before := b.PID()
	call := old.Go(t, "run_command", harness.Args{"command": "echo x >> log; touch began; sleep 2; echo done"}, nil)
	old.Run(t, "until [ -e began ]; do sleep 0.02; done")
	upgraded := b.StdioOf(newer, "stdio")
	require.Equal(t, "x\n", upgraded.OK(t, "run_command", harness.Args{"session_id": id, "command": "cat log"}).Str("stdout"))
	r, _ := call.Wait(t)
	require.Equal(t, "done\n", r.Str("stdout"), r.Text)
	after := b.PID()
	require.NotEqual(t, before, after)
	exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(after), "exe"))
	require.NoError(t, err)
	require.Equal(t, newer, exe)
	require.Equal(t, "x\n", old.Run(t, "cat log").Str("stdout"), "run once")
	require.Equal(t, "x\n", b.Stdio().OK(t, "run_command", harness.Args{"session_id": id, "command": "cat log"}).Str("stdout"), "an older client uses it")
	require.Equal(t, after, b.PID())
}

// A server that a person started is used, and ended by nobody else.
func TestStdioUsesARunningServer(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	b := harness.NewBackground(t)
	b.DataDir = s.DataDir
	b.Env = append(b.Env, "MCP_SANDBOX_DATA_DIR="+s.DataDir)
	c := b.Stdio()
	id := c.Run(t, "echo shared > f").Session()
	require.Equal(t, s.PID(), b.PID())
	// By HTTP, with the data dir's token: it is one owner.
	require.Equal(t, "shared\n", s.Client().Run(t, id, "cat f").Str("stdout"))
	require.Contains(t, b.Shutdown(), "has ended")
	require.Zero(t, b.PID())
	require.Equal(t, "no server runs on the data dir "+s.DataDir+"\n", b.Shutdown())
	require.Equal(t, "shared\n", c.Run(t, "cat f").Str("stdout"), "the client starts one")
	require.NotZero(t, b.PID())
	require.Contains(t, b.Shutdown(), "has ended")
}

// The server in the background ends when nobody needs it: no client, no request,
// and no session whose timers it must keep.
func TestIdleExit(t *testing.T) {
	t.Parallel()
	b := harness.NewBackground(t, "MCP_SANDBOX_IDLE_EXIT=1500ms")
	c := b.Stdio("--session", "s")
	id := c.Run(t, "true").Session()
	server := b.PID()
	c.CloseStdin()
	c.Ended(t, 2*time.Second)
	time.Sleep(4 * time.Second)
	require.Equal(t, server, b.PID(), "a session lives")

	c = b.Stdio("--session", "s")
	require.Equal(t, id, c.OK(t, "end_session", nil).Str("session_id"))
	time.Sleep(4 * time.Second)
	require.Equal(t, server, b.PID(), "a client is connected")
	c.CloseStdin()
	b.AwaitEnd(server, 15*time.Second)
	require.Contains(t, b.Log(), "idle for 1.5s")
	require.NotContains(t, b.Log(), "level=ERROR")
}

// A server that cannot start: the reason is on stderr, and nothing on stdout.
func TestStdioStartFails(t *testing.T) {
	t.Parallel()
	b := harness.NewBackground(t, "DOCKER_HOST=unix:///nonexistent/docker.sock")
	c := b.Stdio()
	require.Equal(t, 1, c.Ended(t, 30*time.Second))
	require.Empty(t, c.Unasked())
	require.Contains(t, c.Stderr(), "the server could not be started (exit code 1)")
	require.Contains(t, c.Stderr(), "/nonexistent/docker.sock", "the reason")
	require.Contains(t, c.Stderr(), "mcp-sandbox doctor")
	require.Zero(t, b.PID())

	o := harness.RunProcess(t, 10*time.Second, b.Env, "stdio", "--session", "a/b")
	require.Equal(t, 2, o.Code)
	require.Contains(t, o.Stderr, "--session")
	require.NoError(t, os.WriteFile(filepath.Join(b.DataDir, "config.toml"), []byte("nonsense = 1\n"), 0o600))
	c = b.Stdio()
	require.Equal(t, 2, c.Ended(t, 30*time.Second))
	require.Contains(t, c.Stderr(), `unknown key "nonsense"`)
}
