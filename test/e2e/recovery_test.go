package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// A sandbox that dies while nobody uses it is noticed all the same, and told of.
func TestDeathIsNoticed(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	c := s.Client()
	status := func(id string) string {
		sessions, _ := c.OK(t, "list_sessions", nil).Structured["sessions"].([]any)
		for _, listed := range sessions {
			if m, _ := listed.(map[string]any); m["session_id"] == id {
				status, _ := m["status"].(string)
				return status
			}
		}
		return ""
	}
	// What looks must not be a call on the session: that would notice by itself.
	removed, restored, killed := c.StartSession(t, nil), c.StartSession(t, nil), c.StartSession(t, nil)
	c.Run(t, restored, "echo then > file")
	c.OK(t, "snapshot", harness.Args{"session_id": restored})
	c.Run(t, restored, "echo now > file")
	background := c.Run(t, killed, "exec sleep 600", harness.Args{"wait_seconds": 0}).Str("command_id")
	first := s.Container(t, killed)

	began := time.Now()
	s.RemoveContainer(t, removed)
	require.Eventually(t, func() bool { return status(removed) == "lost" }, 5*time.Second, 50*time.Millisecond)
	t.Logf("a removed sandbox was listed as lost after %s", time.Since(began))

	began = time.Now()
	s.KillContainer(t, killed)
	require.Eventually(t, func() bool {
		now := s.Container(t, killed)
		return now.State.Running && now.State.StartedAt != first.State.StartedAt
	}, 20*time.Second, 50*time.Millisecond)
	t.Logf("a killed one ran again after %s", time.Since(began))
	r := c.OK(t, "read_output", harness.Args{"session_id": killed, "command_id": background})
	require.Equal(t, "lost", r.Str("status"), r.Text)
	require.Contains(t, c.Run(t, killed, "true").Text, "was started again: files are kept")

	s.RemoveContainer(t, restored)
	require.Eventually(t, func() bool { return len(s.Containers(restored)) == 1 }, 20*time.Second, 50*time.Millisecond)
	r = c.Run(t, restored, "cat file")
	require.Equal(t, "then\n", r.Str("stdout"))
	require.Contains(t, r.Text, "was restored")
}
