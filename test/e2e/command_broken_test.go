package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// slowly prints a line per second and ends with 7 after three.
const slowly = "for i in 1 2 3; do sleep 1; echo $i; done; exit 7"

func a14Cut(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	call := c.Go(t, "cut", "run_command", harness.Args{"session_id": id, "command": slowly})
	// A second time, too: a request is not given up with its second stream.
	for _, seen := range []string{"1\n", "1\n2\n"} {
		awaitOutput(t, c, id, "cut", seen)
		s.CutStream(t, id)
	}
	r, took := call.Wait(t)
	require.False(t, r.IsError, r.Text)
	require.Equal(t, "exited", r.Str("status"))
	require.Equal(t, 7, r.Num("exit_code"))
	require.Equal(t, "1\n2\n3\n", r.Str("stdout"))
	require.Less(t, took, 10*time.Second)
}

// Without a snapshot there is nothing to go back to.
func a14Removed(t *testing.T, s *harness.Server) {
	c := s.Client()
	for _, onLoss := range []string{"fail", "restore"} {
		id := c.StartSession(t, harness.Args{"on_loss": onLoss})
		call := c.Go(t, "removed-"+onLoss, "run_command", harness.Args{"session_id": id, "command": slowly + "; sleep 60"})
		awaitOutput(t, c, id, "removed-"+onLoss, "1\n")
		began := time.Now()
		s.RemoveContainer(t, id)
		r, _ := call.Wait(t)
		require.Less(t, time.Since(began), 10*time.Second, "prompt")
		require.Equal(t, string(session.Lost), r.Code(), r.Text)
		require.Contains(t, r.Text, "start_session", "what to do next")
		require.Equal(t, "lost", c.OK(t, "get_session", harness.Args{"session_id": id}).Str("status"))
		require.Equal(t, string(session.Lost), c.Call(t, "run_command", harness.Args{"session_id": id, "command": "true"}).Code())
		c.OK(t, "end_session", harness.Args{"session_id": id})
	}
}

// With one, the session goes on; the command does not.
func a14Restored(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	c.Run(t, id, "echo kept > file")
	c.OK(t, "snapshot", harness.Args{"session_id": id})
	call := c.Go(t, "restored", "run_command", harness.Args{"session_id": id, "command": "echo x >> ran; " + slowly})
	awaitOutput(t, c, id, "restored", "1\n")
	began := time.Now()
	s.RemoveContainer(t, id)
	r, _ := call.Wait(t)
	require.Less(t, time.Since(began), 15*time.Second, "prompt")
	require.False(t, r.IsError, r.Text)
	require.Equal(t, "lost", r.Str("status"))
	require.Equal(t, -1, r.Num("exit_code"), "none is made up")
	require.Contains(t, r.Text, "cannot be known")
	require.Equal(t, "kept\n", c.Run(t, id, "cat file; test ! -e ran").Str("stdout"), "it was not run again")
}

// awaitOutput waits until the command of a call has printed this, or more
// already on a slow machine.
func awaitOutput(t *testing.T, c *harness.Client, sessionID, callID, want string) {
	t.Helper()
	got := ""
	require.Eventually(t, func() bool {
		r := c.Call(t, "read_output", harness.Args{"session_id": sessionID, "command_id": callID})
		got = r.Str("data")
		return strings.HasPrefix(got, want)
	}, 20*time.Second, 20*time.Millisecond, "wanted %q", want)
}
