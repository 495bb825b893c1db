package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/access"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// Another owner's session, snapshot and command are as unknown as made-up ones:
// the same answer but for the ID, and no effect.
func TestF3AnotherOwner(t *testing.T) {
	t.Parallel()
	alice, aliceHash := access.NewToken()
	mallory, malloryHash := access.NewToken()
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("alice:"+aliceHash+"\nmallory:"+malloryHash+"\n"), 0o600))
	s := harness.Start(t, "--auth-token-file", file)
	hers, other := s.ClientWithToken(alice), s.ClientWithToken(mallory)
	_, err := s.ClientWithToken("nobody").Try(t.Context(), "", "list_sessions", nil)
	require.Error(t, err, "the data dir's own token counts no more, nor does any other")

	id := hers.StartSession(t, nil)
	command := hers.Run(t, id, "echo mine > file; exec sleep 600", harness.Args{"wait_seconds": 0}).Str("command_id")
	snap := hers.OK(t, "snapshot", harness.Args{"session_id": id}).Str("snapshot_id")
	own := other.StartSession(t, nil)
	noSession, noSnapshot := "s_"+strings.Repeat("a", 26), "snap_"+strings.Repeat("a", 26)

	same := func(tool harness.Tool, theirs, madeUp harness.Args, names map[string]string) {
		t.Helper()
		got, want := other.Call(t, tool.Name, tool.Minimal(theirs)), other.Call(t, tool.Name, tool.Minimal(madeUp))
		text := got.Text
		for from, to := range names {
			text = strings.ReplaceAll(text, from, to)
		}
		require.Equal(t, want.IsError, got.IsError, tool.Name)
		require.Equal(t, want.Text, text, tool.Name)
		require.Equal(t, want.Code(), got.Code(), tool.Name)
		if want.IsError {
			require.Equal(t, string(session.NotFound), got.Code(), "%s: %s", tool.Name, got.Text)
		}
		for _, leak := range []string{session.MetaRunID, session.MetaWorkflowID} {
			require.Equal(t, want.Meta[leak] == nil, got.Meta[leak] == nil, "%s: %s", tool.Name, leak)
		}
	}
	for _, tool := range other.Tools(t) {
		if _, takes := tool.Input.Properties["session_id"]; takes {
			names := map[string]string{id: noSession}
			same(tool, harness.Args{"session_id": id}, harness.Args{"session_id": noSession}, names)
			if slices.Contains(tool.Input.Required, "command_id") {
				same(tool, harness.Args{"session_id": id, "command_id": command}, harness.Args{"session_id": noSession, "command_id": command}, names)
				same(tool, harness.Args{"session_id": own, "command_id": command}, harness.Args{"session_id": own, "command_id": "made-up"},
					map[string]string{command: "made-up"})
			}
		}
		if _, takes := tool.Input.Properties["snapshot_id"]; takes {
			theirs, madeUp := harness.Args{"snapshot_id": snap}, harness.Args{"snapshot_id": noSnapshot}
			if slices.Contains(tool.Input.Required, "session_id") {
				theirs["session_id"], madeUp["session_id"] = own, own
			}
			same(tool, theirs, madeUp, map[string]string{snap: noSnapshot})
		}
	}
	// A call ID of hers is not the other's.
	r := other.CallAs(t, command, "run_command", harness.Args{"session_id": own, "command": "echo not hers"})
	require.Equal(t, "not hers\n", r.Str("stdout"))
	for _, list := range []string{"list_sessions", "list_snapshots"} {
		require.NotContains(t, string(other.OK(t, list, nil).Raw), id)
		require.NotContains(t, string(other.OK(t, list, nil).Raw), snap)
	}

	// And nothing has happened to what is hers.
	r = hers.OK(t, "read_output", harness.Args{"session_id": id, "command_id": command})
	require.Equal(t, "running", r.Str("status"))
	require.Equal(t, "mine\nfile\n", hers.Run(t, id, "cat file; ls -A").Str("stdout"))
	hers.OK(t, "restore_snapshot", harness.Args{"session_id": id, "snapshot_id": snap})
	hers.OK(t, "delete_snapshot", harness.Args{"snapshot_id": snap})
}
