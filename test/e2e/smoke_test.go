package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// The main job in one go: an agent works in a sandbox, keeps its files, goes
// back to them and leaves nothing behind.
func TestAgentWorksInASandbox(t *testing.T) {
	s := harness.Start(t)
	c := s.Client()
	id := c.StartSession(t, harness.Args{"name": "smoke"})

	r := c.Run(t, id, "echo out; echo err >&2; exit 3")
	require.Equal(t, "exited", r.Str("status"))
	require.Equal(t, 3, r.Num("exit_code"))

	c.OK(t, "write_file", harness.Args{"session_id": id, "path": "a/b.txt", "content": "hello\nworld\n"})
	c.OK(t, "edit_file", harness.Args{"session_id": id, "path": "a/b.txt", "old_str": "world", "new_str": "$1&"})
	snap := c.OK(t, "snapshot", harness.Args{"session_id": id, "name": "one"}).Str("snapshot_id")
	c.Run(t, id, "rm -r a")
	c.OK(t, "restore_snapshot", harness.Args{"session_id": id, "snapshot_id": snap})
	require.Equal(t, "hello\n$1&\n", c.OK(t, "read_file", harness.Args{"session_id": id, "path": "a/b.txt"}).Str("content"))

	c.OK(t, "end_session", harness.Args{"session_id": id})
	require.Empty(t, s.Containers(id))
	require.Equal(t, "FailedPrecondition", c.Call(t, "run_command", harness.Args{"session_id": id, "command": "true"}).Code())
	c.OK(t, "delete_snapshot", harness.Args{"snapshot_id": snap})
}
