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

// The ways in which a server ends.
var ends = map[string]func(*harness.Server){"KILL": (*harness.Server).Kill, "TERM": (*harness.Server).Stop}

// counting prints 1 to 30 over three seconds and tells on disk how often it was
// started.
const counting = `echo x >> started-%d; i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo $i; sleep 0.1; done; echo end >&2; exit %d`

// The server ends in mid-command, and with it the embedded Temporal and the
// worker. A new one on the same data dir takes everything up.
func TestServerEndsInMidCommand(t *testing.T) {
	t.Parallel()
	for name, end := range ends {
		t.Run(name+" G2 A5 commands and a write in flight", func(t *testing.T) {
			t.Parallel()
			serverEndsInMidCommand(t, end)
		})
	}
}

func serverEndsInMidCommand(t *testing.T, end func(*harness.Server)) {
	s := harness.Start(t)
	c := s.Client()
	id := c.StartSession(t, nil)
	const commands = 4
	call := func(i int) (string, harness.Args) {
		return fmt.Sprintf("count-%d", i), harness.Args{"session_id": id, "command": fmt.Sprintf(counting, i, i)}
	}
	write := harness.Args{"session_id": id, "path": "log", "content": "w\n", "append": true}
	for i := range commands {
		callID, args := call(i)
		c.Go(t, callID, "run_command", args)
	}
	c.Run(t, id, fmt.Sprintf("until [ $(ls started-* 2>/dev/null | wc -l) = %d ]; do sleep 0.02; done", commands))
	c.Sent(t, "write", "write_file", write)
	end(s)

	began := time.Now()
	s.Launch()
	c = s.Client()
	ready := time.Since(began)
	first := c.Until(t, "after", "run_command", harness.Args{"session_id": id, "command": "echo works"})
	require.Equal(t, "works\n", first.Str("stdout"), first.Text)
	t.Logf("from the restart: ready after %s, the next result after %s", ready, time.Since(began))
	want := &strings.Builder{}
	for i := range 30 {
		fmt.Fprintln(want, i+1)
	}
	for i := range commands {
		callID, args := call(i)
		r := c.Until(t, callID, "run_command", args)
		require.Equal(t, "exited", r.Str("status"), r.Text)
		require.Equal(t, i, r.Num("exit_code"))
		require.Equal(t, want.String(), r.Str("stdout"), "all of the output")
		require.Equal(t, "end\n", r.Str("stderr"))
	}
	t.Logf("and all results after %s", time.Since(began))
	require.False(t, c.Until(t, "write", "write_file", write).IsError)
	require.Equal(t, strings.Repeat("x\n", commands)+"w\n", c.Run(t, id, "cat started-* log").Str("stdout"), "each once")
	require.Equal(t, harness.Holdings{Containers: 1, Volumes: 1, Execs: 1}, s.Holdings(t, session.LabelSession, id))
}

// Killed at once when the call is sent: whether it came to anything or not, the
// same call ID has one effect in the end.
func TestServerKilledAsTheCallArrives(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	id := s.Client().StartSession(t, nil)
	calls := []struct {
		tool string
		args harness.Args
	}{
		{"run_command", harness.Args{"session_id": id, "command": "echo run >> log"}},
		{"write_file", harness.Args{"session_id": id, "path": "log", "content": "append\n", "append": true}},
		{"snapshot", harness.Args{"session_id": id}},
		{"start_session", nil},
	}
	for _, call := range calls {
		s.Client().Sent(t, "sent-"+call.tool, call.tool, call.args)
		s.Kill()
		s.Launch()
		r := s.Client().Until(t, "sent-"+call.tool, call.tool, call.args)
		require.False(t, r.IsError, r.Text)
		again := s.Client().Until(t, "sent-"+call.tool, call.tool, call.args)
		require.Equal(t, r.Structured, again.Structured)
	}
	c := s.Client()
	require.Equal(t, "append\nrun\n", c.Run(t, id, "sort log").Str("stdout"))
	snapshots, _ := c.OK(t, "list_snapshots", nil).Structured["snapshots"].([]any)
	require.Len(t, snapshots, 1)
	require.Equal(t, 2, s.Holdings(t, "", "").Containers, "two sessions")
}

// Ending the server ends no session: files and running commands are there for
// whoever comes next.
func TestC12ServerRestarts(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	id := s.Client().StartSession(t, nil)
	s.Client().OK(t, "write_file", harness.Args{"session_id": id, "path": "kept", "content": "here\n"})
	handle := s.Client().Run(t, id, "echo alive; exec sleep 600", harness.Args{"wait_seconds": 0}).Str("command_id")
	container := s.Container(t, id).ID
	for name, end := range ends {
		end(s)
		require.True(t, s.Container(t, id).State.Running, name)
		s.Launch()
		c := s.Client()
		require.Equal(t, "here\n", c.OK(t, "read_file", harness.Args{"session_id": id, "path": "kept"}).Str("content"), name)
		r := c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": handle})
		require.Equal(t, "alive\n", r.Str("data"), name)
		require.Equal(t, "running", r.Str("status"), name)
		require.Equal(t, container, s.Container(t, id).ID, name)
		sessions, _ := c.OK(t, "list_sessions", nil).Structured["sessions"].([]any)
		require.Len(t, sessions, 1, name)
	}
	require.Equal(t, "stopped", s.Client().OK(t, "stop_command", harness.Args{"session_id": id, "command_id": handle}).Str("status"))
}
