package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// A8 and its kind: what is beyond a limit or unknown is refused before anything
// happens, naming the argument and what is right.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	c := s.Client()
	id := c.StartSession(t, nil)
	big := strings.Repeat("x", 300_000)
	for name, row := range map[string]struct {
		tool string
		args harness.Args
		says []string
	}{
		"timeout above":       {"run_command", harness.Args{"command": "touch bad", "timeout_seconds": 86401}, []string{"timeout_seconds", "86400"}},
		"timeout of zero":     {"run_command", harness.Args{"command": "touch bad", "timeout_seconds": 0}, []string{"timeout_seconds", "1"}},
		"timeout as text":     {"run_command", harness.Args{"command": "touch bad", "timeout_seconds": "soon"}, []string{"timeout_seconds"}},
		"timeout in parts":    {"run_command", harness.Args{"command": "touch bad", "timeout_seconds": 1.5}, []string{"timeout_seconds"}},
		"wait above":          {"run_command", harness.Args{"command": "touch bad", "wait_seconds": 51}, []string{"wait_seconds", "50"}},
		"wait below":          {"run_command", harness.Args{"command": "touch bad", "wait_seconds": -1}, []string{"wait_seconds", "0"}},
		"output above":        {"run_command", harness.Args{"command": "touch bad", "max_output_bytes": 262145}, []string{"max_output_bytes", "262144"}},
		"no command":          {"run_command", harness.Args{}, []string{"command"}},
		"empty command":       {"run_command", harness.Args{"command": ""}, []string{"command"}},
		"long command":        {"run_command", harness.Args{"command": big}, []string{"command", "262144", "write_file"}},
		"NUL":                 {"run_command", harness.Args{"command": "touch bad\x00"}, []string{"command", "NUL"}},
		"unknown argument":    {"run_command", harness.Args{"command": "touch bad", "timeout": 1}, []string{"timeout", "timeout_seconds"}},
		"env name":            {"run_command", harness.Args{"command": "touch bad", "env": harness.Args{"A=B": "c"}}, []string{"A=B"}},
		"env too large":       {"run_command", harness.Args{"command": "touch bad", "env": harness.Args{"A": big[:70_000]}}, []string{"env", "65536"}},
		"env as a list":       {"run_command", harness.Args{"command": "touch bad", "env": []string{"A=b"}}, []string{"env"}},
		"cwd as a number":     {"run_command", harness.Args{"command": "touch bad", "cwd": 7}, []string{"cwd"}},
		"bad signal":          {"stop_command", harness.Args{"command_id": "x", "signal": "NUKE"}, []string{"signal", "TERM"}},
		"bad encoding":        {"write_file", harness.Args{"path": "bad", "content": "x", "encoding": "latin-1"}, []string{"encoding", "base64"}},
		"bad base64":          {"write_file", harness.Args{"path": "bad", "content": "*", "encoding": "base64"}, []string{"content", "base64"}},
		"content above":       {"write_file", harness.Args{"path": "bad", "content": big}, []string{"content", "262144", "append"}},
		"bad mode":            {"write_file", harness.Args{"path": "bad", "content": "x", "mode": "u+x"}, []string{"mode", "0644"}},
		"bad hash":            {"write_file", harness.Args{"path": "bad", "content": "x", "expected_sha256": "abc"}, []string{"expected_sha256", "64"}},
		"empty old_str":       {"edit_file", harness.Args{"path": "f", "old_str": "", "new_str": "x"}, []string{"old_str"}},
		"nothing to change":   {"edit_file", harness.Args{"path": "f", "old_str": "x", "new_str": "x"}, []string{"new_str"}},
		"lines above":         {"read_file", harness.Args{"path": "f", "limit": 100_001}, []string{"limit", "100000"}},
		"nothing to send":     {"send_input", harness.Args{"command_id": "x"}, []string{"data", "close"}},
		"both image and fork": {"start_session", harness.Args{"image": "x", "snapshot_id": "snap_" + strings.Repeat("a", 26)}, []string{"snapshot_id", "image"}},
		"memory below":        {"start_session", harness.Args{"memory_mb": 1}, []string{"memory_mb", "16"}},
		"cpus above":          {"start_session", harness.Args{"cpus": 1000}, []string{"cpus", "256"}},
		"lifetime above":      {"start_session", harness.Args{"max_lifetime_seconds": 2592001}, []string{"max_lifetime_seconds", "2592000"}},
		"network not offered": {"start_session", harness.Args{"network": "full"}, []string{"network", "none"}},
		"name with a newline": {"start_session", harness.Args{"name": "a\nb"}, []string{"name"}},
		"name too long":       {"start_session", harness.Args{"name": big[:129]}, []string{"name", "128"}},
		"status":              {"list_sessions", harness.Args{"status": "sleepy"}, []string{"status", "running"}},
		"limit":               {"list_sessions", harness.Args{"limit": 501}, []string{"limit", "500"}},
	} {
		t.Run(name, func(t *testing.T) {
			if row.tool != "start_session" && row.tool != "list_sessions" {
				row.args["session_id"] = id
			}
			r := c.Call(t, row.tool, row.args)
			require.Equal(t, string(session.InvalidArgument), r.Code(), r.Text)
			for _, word := range row.says {
				require.Contains(t, r.Text, word)
			}
			require.Less(t, len(r.Text), 1000, "it does not repeat what it was given")
		})
	}
	require.Equal(t, "none\n", c.Run(t, id, "ls bad 2>/dev/null || echo none").Str("stdout"))
	require.Equal(t, 1, s.Holdings(t, "", "").Containers)
	_, err := c.Try(t.Context(), "", "no_such_tool", nil)
	require.ErrorContains(t, err, "no_such_tool")
}

// refuses runs a command line that cannot work: it ends by itself within seconds,
// says why and what to do, and leaves no process.
func refuses(t *testing.T, code int, env []string, args []string, says ...string) {
	t.Helper()
	o := harness.RunProcess(t, 20*time.Second, env, args...)
	require.Equal(t, code, o.Code, o.Stderr)
	lines := strings.Split(strings.TrimSpace(o.Stderr), "\n")
	last := lines[len(lines)-1]
	require.True(t, strings.HasPrefix(last, "mcp-sandbox: "), "the last line is the reason: %s", o.Stderr)
	for _, word := range says {
		require.Contains(t, last, word)
	}
	require.NotContains(t, o.Stderr, "goroutine ")
	require.NotContains(t, o.Stderr, "Usage:")
}
