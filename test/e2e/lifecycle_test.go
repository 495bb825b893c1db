package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// How sessions begin and end, and what they leave.
func TestLifecycleCases(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	t.Run("D1 orphans leave no zombie", func(t *testing.T) { d1Orphans(t, s) })
	t.Run("D9 an image that does not exist", func(t *testing.T) { d9NoImage(t, s) })
}

// Processes whose parents are gone are PID 1's: it must reap them all.
func d1Orphans(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	c.Run(t, id, `i=0; while [ $i -lt 100 ]; do (sleep 0.$((i % 10)) & setsid true &) ; i=$((i+1)); done`)
	// Only the counting shell and PID 1 remain when all have been reaped.
	left := ""
	require.Eventually(t, func() bool {
		left = c.Run(t, id, `cat /proc/[0-9]*/status 2>/dev/null | grep -e '^State:.Z' -e '^Name:.sleep' -e '^Name:.true'; true`).Str("stdout")
		return left == ""
	}, 10*time.Second, 50*time.Millisecond)
	require.Empty(t, left)
	usage, _ := c.OK(t, "get_session", harness.Args{"session_id": id}).Structured["usage"].(map[string]any)
	require.Less(t, usage["pids"], 60.0, "threads of PID 1 alone")
}

// D2: nothing here traps TERM, so nothing has to be waited for. Not beside the
// fork bombs of the parallel tests; and the fastest of three counts, as other
// packages are tested meanwhile.
func TestD2SessionEndsAtOnce(t *testing.T) {
	s := harness.Start(t)
	c := s.Client()
	best := time.Hour
	for range 3 {
		id := c.StartSession(t, nil)
		c.Run(t, id, "sleep 600 & sleep 600", harness.Args{"wait_seconds": 0})
		began := time.Now()
		r := c.OK(t, "end_session", harness.Args{"session_id": id})
		best = min(best, time.Since(began))
		require.Equal(t, "ended", r.Str("status"))
		require.Equal(t, harness.Holdings{}, s.Holdings(t, session.LabelSession, id), "gone when it says so")
		c.OK(t, "end_session", harness.Args{"session_id": id}) // again: no error
	}
	t.Logf("end_session took %s", best)
	require.Less(t, best, time.Second)
}

func d9NoImage(t *testing.T, s *harness.Server) {
	c := s.Client()
	before := s.Holdings(t, "", "")
	for image, code := range map[string]session.Code{
		"mcp-sandbox-no-such-image.invalid/x:1": session.NotFound, // by its registry's name: no look-up leaves the machine
		"Not An Image":                          session.InvalidArgument,
		"debian:-":                              session.InvalidArgument,
	} {
		r := c.Call(t, "start_session", harness.Args{"name": "d9", "image": image})
		require.Equal(t, string(code), r.Code(), "%s: %s", image, r.Text)
		require.Contains(t, r.Text, image)
	}
	require.Equal(t, before, s.Holdings(t, "", ""), "nothing left behind")
	sessions, _ := c.OK(t, "list_sessions", harness.Args{"status": "starting"}).Structured["sessions"].([]any)
	require.Empty(t, sessions)

	r := c.OK(t, "start_session", harness.Args{"name": "d9"})
	require.Equal(t, "running", r.Str("status"))
	require.Equal(t, "ok\n", c.Run(t, r.Str("session_id"), "echo ok").Str("stdout"))
}
