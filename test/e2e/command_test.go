package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// defaultImage has what agents expect: bash, python3, git.
const defaultImage = "mcp-sandbox/default:latest"

// How commands begin, wait and end.
func TestCommandCases(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	for name, test := range map[string]func(*testing.T, *harness.Server){
		"A1 a child that lives on holds nobody up":         a1Child,
		"A3 a timeout ends the whole tree":                 a3Timeout,
		"A4 a timeout is kept":                             a4TimeoutKept,
		"A7 a background command has no timeout":           a7Background,
		"A9 nothing waits for somebody to type":            a9Prompts,
		"A9 git asks for no password":                      a9Password,
		"A10 input goes to a background command":           a10Input,
		"A10 a signal is that signal":                      a10Signal,
		"A12 a fork bomb is its own session's trouble":     a12ForkBomb,
		"A12 too much memory is its own session's trouble": a12Memory,
		"A14 a cut stream changes nothing":                 a14Cut,
		"A14 a container that is removed":                  a14Removed,
		"A14 a sandbox that is restored":                   a14Restored,
		"a hundred commands at a time":                     manyCommands,
		"what the limits allow":                            commandLimits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

func a1Child(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	var first harness.Result
	for range 2 {
		// A minute, not 4 s: the child must be seen alive afterwards.
		r, took := c.Timed(t, "run_command", harness.Args{"session_id": id, "command": "sleep 60 & echo started"})
		require.Less(t, took, 2*time.Second)
		require.Less(t, r.Num("duration_ms"), 1000)
		require.Equal(t, "exited", r.Str("status"))
		require.Equal(t, 0, r.Num("exit_code"))
		require.Equal(t, "started\n", r.Str("stdout"))
		require.Equal(t, true, r.Structured["output_held"])
		require.Contains(t, r.Text, "stop_command")
		first = r
	}
	require.Equal(t, "2\n", count(t, c, id, "sleep 60"))
	stop(t, c, id, first, "TERM")
	require.Equal(t, "1\n", count(t, c, id, "sleep 60"), "only its own child is stopped")
}

func a3Timeout(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	// Children in sessions of their own, too, and one that ignores TERM.
	command := "setsid sleep 31 & (trap '' TERM; sleep 32; touch /tmp/late) & sleep 30; touch /tmp/late"
	r, took := c.Timed(t, "run_command", harness.Args{"session_id": id, "command": command, "timeout_seconds": 1})
	require.Equal(t, "timed_out", r.Str("status"))
	require.Less(t, r.Num("duration_ms"), 2000)
	require.Less(t, took, 3*time.Second)
	// With nobody left to make it, the file never appears.
	require.Equal(t, "0\n", count(t, c, id, "sleep 3"))
	require.Equal(t, "0\n", count(t, c, id, "late"))
	require.Equal(t, "none\n", c.Run(t, id, "test -e /tmp/late || echo none").Str("stdout"))
}

func a4TimeoutKept(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	r, took := c.Timed(t, "run_command", harness.Args{"session_id": id, "command": "sleep 5; echo hi", "timeout_seconds": 2})
	require.Equal(t, "timed_out", r.Str("status"))
	require.Empty(t, r.Str("stdout"))
	require.Less(t, took, 3*time.Second)
	require.Contains(t, r.Text, "timeout_seconds")
}

// The real 95 s: longer than any call may wait (50 s), than the bound of an
// answer (55 s) and than clients' own limits (60 s). That the foreground's
// default of 600 s is not applied either is too long to wait for: the value
// that the guest is given has to do.
func a7Background(t *testing.T, s *harness.Server) {
	background := 0
	require.Zero(t, session.RunCommandIn{WaitSeconds: &background}.Timeout())
	require.Equal(t, session.DefaultTimeoutSeconds, session.RunCommandIn{}.Timeout())

	c := s.Client()
	id := c.StartSession(t, nil)
	r := c.Run(t, id, "sleep 95; echo done", harness.Args{"wait_seconds": 0})
	require.Equal(t, "running", r.Str("status"))
	args := harness.Args{"session_id": id, "command_id": r.Str("command_id"), "wait_seconds": 50}
	require.Equal(t, "running", c.OK(t, "read_output", args).Str("status"))
	r = c.OK(t, "read_output", args)
	require.Equal(t, "done\n", r.Str("data"))
	args["offset"] = r.Num("next_offset")
	r = c.OK(t, "read_output", args)
	require.Equal(t, "exited", r.Str("status"))
	require.Equal(t, 0, r.Num("exit_code"))
}

func a10Input(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	command := c.Run(t, id, "cat", harness.Args{"wait_seconds": 0}).Str("command_id")
	args := func(more harness.Args) harness.Args {
		more["session_id"], more["command_id"] = id, command
		return more
	}
	r := c.OK(t, "send_input", args(harness.Args{"data": "héllo\n"}))
	require.Equal(t, len("héllo\n"), r.Num("bytes_written"))
	r = c.OK(t, "read_output", args(harness.Args{"wait_seconds": 10}))
	require.Equal(t, "héllo\n", r.Str("data"))
	require.Equal(t, "running", r.Str("status"))
	c.OK(t, "send_input", args(harness.Args{"close": true}))
	r = c.OK(t, "read_output", args(harness.Args{"offset": r.Num("next_offset"), "wait_seconds": 10}))
	require.Equal(t, "exited", r.Str("status"))
	require.Equal(t, 0, r.Num("exit_code"))
	require.Equal(t, true, r.Structured["eof"])
	require.Empty(t, r.Str("data"))
	require.Equal(t, string(session.FailedPrecondition), c.Call(t, "send_input", args(harness.Args{"data": "more"})).Code())
}

func a10Signal(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	r := c.Run(t, id, "trap 'echo got INT; exit 5' INT; echo ready; while :; do sleep 0.1; done", harness.Args{"wait_seconds": 0})
	args := harness.Args{"session_id": id, "command_id": r.Str("command_id"), "wait_seconds": 10}
	require.Equal(t, "ready\n", c.OK(t, "read_output", args).Str("data"))
	stopped := stop(t, c, id, r, "INT")
	require.Equal(t, "exited", stopped.Str("status"), "the command ended by itself")
	require.Equal(t, 5, stopped.Num("exit_code"))
	require.Equal(t, "ready\ngot INT\n", c.OK(t, "read_output", args).Str("data"))
}

// stop stops the command of a result.
func stop(t *testing.T, c *harness.Client, sessionID string, r harness.Result, signal string) harness.Result {
	t.Helper()
	return c.OK(t, "stop_command", harness.Args{"session_id": sessionID, "command_id": r.Str("command_id"), "signal": signal})
}

// count counts the sandbox's processes whose command line holds a text: a line
// with the number. The counting shell does not count itself.
func count(t *testing.T, c *harness.Client, sessionID, text string) string {
	t.Helper()
	pattern := "[" + text[:1] + "]" + strings.ReplaceAll(text[1:], " ", ".")
	return c.Run(t, sessionID, `for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep -c '`+pattern+`' || true`).Str("stdout")
}
