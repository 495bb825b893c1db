package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// What clients do: give up early, send again, ask for what is not there.
func TestClientCases(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	c := s.Client()
	for name, test := range map[string]func(*testing.T, *harness.Client){
		"C1 a command outlasts the client's patience":   c1LongCommand,
		"C4 the same call ID has one effect":            c4SameCallID,
		"C4 a call ID belongs to one call":              c4ReusedCallID,
		"C8 an unknown session says what to do":         c8UnknownSession,
		"C9 annotations say what reads and what breaks": c9Annotations,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// Longer than the default wait, with the defaults of a caller who knows nothing.
func c1LongCommand(t *testing.T, c *harness.Client) {
	id := c.StartSession(t, nil)
	patient, cancel := context.WithTimeout(t.Context(), 60*time.Second) // as many clients are
	defer cancel()
	r, err := c.Try(patient, "", "run_command", harness.Args{"session_id": id, "command": "echo x >> ran; sleep 52; echo done"})
	require.NoError(t, err)
	require.Equal(t, "running", r.Str("status"), r.Text)
	handle := r.Str("command_id")
	require.Contains(t, r.Text, handle, "the text alone must be enough to go on")

	out, offset := &strings.Builder{}, 0
	for {
		r = c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": handle, "offset": offset, "wait_seconds": 20})
		out.WriteString(r.Str("data"))
		offset = r.Num("next_offset")
		if r.Structured["eof"] == true {
			break
		}
	}
	require.Equal(t, "done\n", out.String())
	require.Equal(t, "exited", r.Str("status"))
	require.Equal(t, "x\n", c.Run(t, id, "cat ran").Str("stdout"), "run once")
}

// The first answer counts as lost: the client sends each call again after five
// others.
func c4SameCallID(t *testing.T, c *harness.Client) {
	id := c.StartSession(t, nil)
	with := func(args harness.Args) harness.Args {
		args["session_id"] = id
		return args
	}
	reader := c.Run(t, id, "cat >> got", harness.Args{"wait_seconds": 0}).Str("command_id")
	looper := c.Run(t, id, "sleep 600", harness.Args{"wait_seconds": 0}).Str("command_id")
	c.OK(t, "write_file", with(harness.Args{"path": "edited", "content": "a\n"}))
	calls := []struct {
		tool string
		args harness.Args
	}{
		{"run_command", with(harness.Args{"command": "echo x >> log; echo out; echo err >&2; exit 3"})},
		{"write_file", with(harness.Args{"path": "log", "content": "y\n", "append": true})},
		{"edit_file", with(harness.Args{"path": "edited", "old_str": "a", "new_str": "aa"})},
		{"send_input", with(harness.Args{"command_id": reader, "data": "line\n"})},
		{"stop_command", with(harness.Args{"command_id": looper})},
		{"snapshot", with(harness.Args{"name": "c4"})},
		{"start_session", harness.Args{"name": "c4"}},
	}
	var first []harness.Result
	for i, call := range calls {
		r := c.CallAs(t, "c4-"+call.tool, call.tool, call.args)
		require.False(t, r.IsError, "%s: %s", call.tool, r.Text)
		require.Equal(t, "c4-"+call.tool, r.CallID())
		first = append(first, r)
		for range 5 {
			c.Run(t, id, "true")
		}
		again := c.CallAs(t, "c4-"+call.tool, call.tool, call.args)
		require.Equal(t, r.Structured, again.Structured, call.tool)
		require.Equal(t, r.Text, again.Text, calls[i].tool)
	}
	require.Equal(t, 3, first[0].Num("exit_code"))

	c.OK(t, "send_input", with(harness.Args{"command_id": reader, "close": true}))
	c.OK(t, "read_output", with(harness.Args{"command_id": reader, "wait_seconds": 10}))
	require.Equal(t, "x\ny\n--\naa\n--\nline\n", c.Run(t, id, "cat log; echo --; cat edited; echo --; cat got").Str("stdout"))
	snapshots, _ := c.OK(t, "list_snapshots", harness.Args{"session_id": id}).Structured["snapshots"].([]any)
	require.Len(t, snapshots, 1)
	c.OK(t, "end_session", harness.Args{"session_id": first[6].Str("session_id")})
}

// An ID that was used for something else must not answer with that.
func c4ReusedCallID(t *testing.T, c *harness.Client) {
	id := c.StartSession(t, nil)
	args := harness.Args{"session_id": id, "command": "echo one"}
	require.False(t, c.CallAs(t, "once", "run_command", args).IsError)
	for tool, other := range map[string]harness.Args{
		"run_command": {"session_id": id, "command": "echo two"},
		"write_file":  {"session_id": id, "path": "f", "content": "x"},
		"snapshot":    {"session_id": id},
	} {
		r := c.CallAs(t, "once", tool, other)
		require.Equal(t, string(session.InvalidArgument), r.Code(), "%s: %s", tool, r.Text)
		require.Contains(t, r.Text, "call ID")
	}
	require.Equal(t, "one\n", c.CallAs(t, "once", "run_command", args).Str("stdout"))
	require.Equal(t, string(session.InvalidArgument), c.CallAs(t, "no spaces", "run_command", args).Code())
	require.Equal(t, "gone\n", c.Run(t, id, "test -e f || echo gone").Str("stdout"))
}

func c8UnknownSession(t *testing.T, c *harness.Client) {
	for _, tool := range c.Tools(t) {
		if !slices.Contains(tool.Input.Required, "session_id") {
			continue
		}
		for _, id := range []string{"s_" + strings.Repeat("a", 26), "nonsense", "../session/x", "snap_" + strings.Repeat("a", 26)} {
			r := c.Call(t, tool.Name, tool.Minimal(harness.Args{"session_id": id}))
			require.True(t, r.IsError, tool.Name)
			require.Equal(t, string(session.NotFound), r.Code(), "%s: %s", tool.Name, r.Text)
			require.Contains(t, r.Text, "start_session", "%s names the next step", tool.Name)
			require.Nil(t, r.Structured, "an error has no structured content")
		}
	}
}

func c9Annotations(t *testing.T, c *harness.Client) {
	reads := map[string]bool{
		"list_sessions": true, "get_session": true, "read_output": true, "read_file": true, "list_files": true,
		"search_files": true, "list_snapshots": true, "session_history": true,
	}
	destroys := map[string]bool{
		"end_session": true, "run_command": true, "send_input": true, "stop_command": true, "write_file": true,
		"edit_file": true, "delete_snapshot": true, "restore_snapshot": true,
	}
	for _, tool := range c.Tools(t) {
		for _, hint := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
			require.Contains(t, tool.Annotations, hint, tool.Name)
		}
		require.Equal(t, reads[tool.Name], tool.Annotations["readOnlyHint"], "%s: reads only", tool.Name)
		require.Equal(t, destroys[tool.Name], tool.Annotations["destructiveHint"], "%s: destroys", tool.Name)
	}
}
