package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/access"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// Two owners start all at once: each gets the places there are, and not one more.
func TestMaxSessions(t *testing.T) {
	t.Parallel()
	const places, tries = 3, 5
	alice, aliceHash := access.NewToken()
	bob, bobHash := access.NewToken()
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("alice:"+aliceHash+"\nbob:"+bobHash+"\n"), 0o600))
	s := harness.Start(t, "--auth-token-file", file, "--max-sessions", strconv.Itoa(places))

	clients := []*harness.Client{s.ClientWithToken(alice), s.ClientWithToken(bob)}
	results := make([][tries]harness.Result, len(clients))
	var starts sync.WaitGroup
	for i, c := range clients {
		for n := range tries {
			starts.Go(func() { results[i][n], _ = c.Try(t.Context(), fmt.Sprintf("start-%d", n), "start_session", nil) })
		}
	}
	starts.Wait()
	for i, c := range clients {
		var ids []string
		again := ""
		for n, r := range results[i] {
			if r.IsError {
				require.Equal(t, string(session.ResourceExhausted), r.Code(), r.Text)
				for _, part := range []string{"3 live sessions", "--max-sessions", "end_session", "list_sessions"} {
					require.Contains(t, r.Text, part)
				}
				continue
			}
			ids, again = append(ids, r.Str("session_id")), fmt.Sprintf("start-%d", n)
		}
		require.Len(t, ids, places)
		require.Equal(t, ids[places-1], c.CallAs(t, again, "start_session", nil).Str("session_id"), "a start sent again finds its session")

		// A fork counts too; an end frees its place at once.
		snap := c.OK(t, "snapshot", harness.Args{"session_id": ids[0]}).Str("snapshot_id")
		require.Equal(t, string(session.ResourceExhausted), c.Call(t, "start_session", harness.Args{"snapshot_id": snap}).Code())
		c.OK(t, "end_session", harness.Args{"session_id": ids[0]})
		c.StartSession(t, harness.Args{"snapshot_id": snap})
		require.Equal(t, string(session.ResourceExhausted), c.Call(t, "start_session", nil).Code())
	}

	// A new process counts what it did not start.
	s.Kill()
	s.Launch()
	require.Equal(t, string(session.ResourceExhausted), s.ClientWithToken(alice).Call(t, "start_session", nil).Code())
}
