package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// More than the 90 that wait inside updates: the rest queue, and none is lost.
func manyCommands(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	var calls []*harness.Pending
	for i := range 100 {
		calls = append(calls, c.Go(t, "", "run_command", harness.Args{"session_id": id, "command": fmt.Sprintf("sleep 2; echo %d", i)}))
	}
	for i, call := range calls {
		r, took := call.Wait(t)
		require.Equal(t, fmt.Sprintf("%d\n", i), r.Str("stdout"), r.Text)
		require.Less(t, took, 40*time.Second)
	}
}

// What the limits allow works, and what they do not is refused before anything
// happens.
func commandLimits(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	const most = 262144
	script := func(size int) string { return "echo whole; #" + strings.Repeat("x", size-len("echo whole; #")) }
	require.Equal(t, "whole\n", c.Run(t, id, script(most)).Str("stdout"))
	require.Equal(t, "262144\n", c.Run(t, id, "wc -c", harness.Args{"stdin": strings.Repeat("x", most)}).Str("stdout"))
	require.Equal(t, 4, c.Run(t, id, "exit 4", harness.Args{"stdin": strings.Repeat("x", most)}).Num("exit_code"), "unread")
	require.Equal(t, "60000\n", c.Run(t, id, "echo ${#BIG}", harness.Args{"env": harness.Args{"BIG": strings.Repeat("x", 60000)}}).Str("stdout"))
	require.Equal(t, "[a\nb 'q' \"$HOME\" é]\n", c.Run(t, id, `echo "[$A]"`, harness.Args{"env": harness.Args{"A": "a\nb 'q' \"$HOME\" é"}}).Str("stdout"))
	require.Equal(t, "0000000   a  \\0   b\n0000003\n", c.Run(t, id, "od -c", harness.Args{"stdin": "a\x00b"}).Str("stdout"))
	for _, test := range []struct {
		says string
		code session.Code
		args harness.Args
	}{
		{"262144", session.InvalidArgument, harness.Args{"command": script(most + 1)}},
		{"262144", session.InvalidArgument, harness.Args{"command": "touch ran", "stdin": strings.Repeat("x", most+1)}},
		{"65536", session.InvalidArgument, harness.Args{"command": "touch ran", "env": harness.Args{"BIG": strings.Repeat("x", 70000)}}},
		{"variable name", session.InvalidArgument, harness.Args{"command": "touch ran", "env": harness.Args{"A-B": ""}}},
		{"NUL", session.InvalidArgument, harness.Args{"command": "touch ran; echo a\x00b"}},
		{"not a directory", session.InvalidArgument, harness.Args{"command": "touch ran", "cwd": "/etc/passwd"}},
		{"does not exist", session.NotFound, harness.Args{"command": "touch ran", "cwd": "nowhere"}},
		{"cwd", session.PermissionDenied, harness.Args{"command": "touch ran", "cwd": "/.sandbox/state"}},
	} {
		test.args["session_id"] = id
		r := c.Call(t, "run_command", test.args)
		require.Equal(t, string(test.code), r.Code(), r.Text)
		require.Contains(t, r.Text, test.says)
	}
	require.Equal(t, "clean\n", c.Run(t, id, "test -e ran || echo clean").Str("stdout"))

	r := c.Run(t, id, "sleep 60", harness.Args{"wait_seconds": 1})
	require.Equal(t, "running", r.Str("status"))
	require.GreaterOrEqual(t, r.Num("duration_ms"), 1000, "what runs says for how long")
	require.Equal(t, "stopped", stop(t, c, id, r, "KILL").Str("status"))
}
