package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// JSON writes some bytes as six: what is allowed must fit all the same.
func TestG1Escapes(t *testing.T) {
	t.Parallel()
	c := harness.Start(t).Client()
	id := c.StartSession(t, nil)
	const most = 262144
	for name, text := range map[string]string{"markup": "<", "control": "\x01", "quotes": `"`} {
		t.Run(name, func(t *testing.T) {
			octal := map[string]string{"<": "<", "\x01": `\001`, `"`: `"`}[text]
			print := `(yes "$(printf '` + octal + `')" | tr -d '\n' | head -c 300000) 2>/dev/null`
			r := c.Run(t, id, print+"; { "+print+"; } >&2", harness.Args{"max_output_bytes": most})
			require.Equal(t, 300000, r.Num("stdout_bytes"))
			require.Equal(t, 300000, r.Num("stderr_bytes"))
			o := c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": r.Str("command_id"), "max_bytes": most})
			require.Equal(t, strings.Repeat(text, most), o.Str("data"))

			content := strings.Repeat(text, most)
			c.OK(t, "write_file", harness.Args{"session_id": id, "path": "f", "content": content})
			require.Equal(t, "262144 f\n", c.Run(t, id, "wc -c f").Str("stdout"))
			half := strings.Repeat(text, 131072)
			c.OK(t, "edit_file", harness.Args{"session_id": id, "path": "f", "old_str": half, "new_str": half[1:], "replace_all": true})
			in := c.Run(t, id, "cat | wc -c", harness.Args{"stdin": content, "env": harness.Args{"BIG": strings.Repeat(text, 60000)}})
			require.Equal(t, "262144\n", in.Str("stdout"))
			reader := c.Run(t, id, "wc -c", harness.Args{"wait_seconds": 0}).Str("command_id")
			c.OK(t, "send_input", harness.Args{"session_id": id, "command_id": reader, "data": content, "close": true})
			o = c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": reader, "wait_seconds": 10})
			require.Equal(t, "262144\n", o.Str("data"))
			script := ": '" + strings.Repeat(text, most-8) + "'; :"
			require.Equal(t, 0, c.Run(t, id, script).Num("exit_code"))
		})
	}
	require.Equal(t, "ok\n", c.Run(t, id, "echo ok").Str("stdout"), "the session still works")
}

// Many large answers at a time are more than one message to Temporal may hold.
func TestG1ManyLargeAnswers(t *testing.T) {
	t.Parallel()
	c := harness.Start(t).Client()
	id := c.StartSession(t, nil)
	const calls = 24
	var pending []*harness.Pending
	large := harness.Args{
		"session_id": id, "max_output_bytes": 262144,
		"command": "echo >> ready; until test -e go; do sleep 0.02; done; seq 1 40000 | tee /proc/self/fd/2 | cat",
	}
	for i := range calls {
		pending = append(pending, c.Go(t, fmt.Sprintf("large-%d", i), "run_command", large))
	}
	require.Equal(t, "ready\n", c.Run(t, id, fmt.Sprintf("until [ $(wc -l < ready) = %d ]; do sleep 0.05; done; touch go; echo ready", calls)).Str("stdout"))
	for i, p := range pending {
		r, _ := p.Wait(t)
		if r.Code() == "DeadlineExceeded" { // a busy machine: the same call ID, as the message says
			r = c.Until(t, fmt.Sprintf("large-%d", i), "run_command", large)
		}
		require.False(t, r.IsError, r.Text)
		require.Equal(t, 228894, r.Num("stdout_bytes"))
		require.Equal(t, 228894, r.Num("stderr_bytes"))
		require.Equal(t, false, r.Structured["truncated"])
	}
	require.Equal(t, "ok\n", c.Run(t, id, "echo ok").Str("stdout"), "the session still works")
}

// The same for answers that are small enough to come with the workflow task.
func TestG1ManyNearAnswers(t *testing.T) {
	t.Parallel()
	c := harness.Start(t).Client()
	id := c.StartSession(t, nil)
	for _, size := range []int{28 << 10, 60 << 10} { // below and above what comes so
		c.Run(t, id, fmt.Sprintf("head -c %d /dev/urandom | base64 -w 0 | head -c %d > f", size, size))
		var pending []*harness.Pending
		for i := range 90 {
			pending = append(pending, c.Go(t, fmt.Sprintf("near-%d-%d", size, i), "read_file", harness.Args{"session_id": id, "path": "f", "encoding": "base64"}))
		}
		for i, p := range pending {
			r, _ := p.Wait(t)
			if r.Code() == "DeadlineExceeded" { // a busy machine: the same call ID, as the message says
				r = c.Until(t, fmt.Sprintf("near-%d-%d", size, i), "read_file", harness.Args{"session_id": id, "path": "f", "encoding": "base64"})
			}
			require.False(t, r.IsError, r.Text)
			require.Equal(t, size, r.Num("size"))
		}
	}
	require.Equal(t, "ok\n", c.Run(t, id, "echo ok").Str("stdout"), "the session still works")
}
