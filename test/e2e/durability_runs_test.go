package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// A restore sets the files back, not what is known of calls. A fork begins with
// an empty record.
func TestRestoreKeepsCallIDs(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	c := s.Client()
	id := c.StartSession(t, nil)
	run := harness.Args{"session_id": id, "command": "echo x >> log; echo answer; exit 4"}
	write := harness.Args{"session_id": id, "path": "log", "content": "y\n", "append": true}
	snap := c.OK(t, "snapshot", harness.Args{"session_id": id}).Str("snapshot_id")
	first := c.CallAs(t, "run", "run_command", run)
	written := c.CallAs(t, "write", "write_file", write)
	long := c.Run(t, id, "echo before; exec sleep 600", harness.Args{"wait_seconds": 0}).Str("command_id")
	restore := harness.Args{"session_id": id, "snapshot_id": snap}
	require.False(t, c.CallAs(t, "restore", "restore_snapshot", restore).IsError)

	require.Equal(t, first.Structured, c.CallAs(t, "run", "run_command", run).Structured)
	require.Equal(t, written.Structured, c.CallAs(t, "write", "write_file", write).Structured)
	require.Equal(t, "none\n", c.Run(t, id, "cat log 2>/dev/null || echo none").Str("stdout"), "nothing ran again")
	r := c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": long})
	require.Equal(t, "before\n", r.Str("data"))
	require.Equal(t, "lost", r.Str("status"), "its process ended with the sandbox of before")
	require.Equal(t, "answer\n", c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": "run"}).Str("data"))
	c.Run(t, id, "echo new > after")
	require.False(t, c.CallAs(t, "restore", "restore_snapshot", restore).IsError)
	require.Equal(t, "new\n", c.Run(t, id, "cat after").Str("stdout"), "not restored again")

	fork := c.StartSession(t, harness.Args{"snapshot_id": snap})
	require.Equal(t, string(session.NotFound), c.Call(t, "read_output", harness.Args{"session_id": fork, "command_id": "run"}).Code())
	run["session_id"] = fork
	require.Equal(t, 4, c.CallAs(t, "run", "run_command", run).Num("exit_code"))
	require.Equal(t, "x\n", c.Run(t, fork, "cat log").Str("stdout"), "there it runs")
}

// Runs of a workflow come and go under a session that is at work all the time.
func TestG3ContinueAsNew(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--events-per-run", "200")
	c := s.Client()
	id := c.StartSession(t, nil)
	snapshot := harness.Args{"session_id": id, "name": "g3"}
	snap := c.CallAs(t, "snapshot", "snapshot", snapshot)
	c.Run(t, id, "echo gone > gone")
	restore := harness.Args{"session_id": id, "snapshot_id": snap.Str("snapshot_id")}
	require.False(t, c.CallAs(t, "restore", "restore_snapshot", restore).IsError)
	background := c.Run(t, id, "i=0; while :; do i=$((i+1)); echo $i; sleep 0.2; done", harness.Args{"wait_seconds": 0}).Str("command_id")
	waiting := c.Go(t, "waiting", "run_command", harness.Args{"session_id": id, "command": "echo w >> waiting; until test -e finish; do sleep 0.1; done; echo waited"})

	const calls, workers = 240, 8
	call := func(i int) (callID, tool string, args harness.Args) {
		callID = fmt.Sprintf("call-%03d", i)
		switch i % 4 {
		case 0:
			return callID, "write_file", harness.Args{"session_id": id, "path": "log", "content": callID + "\n", "append": true}
		case 1:
			return callID, "read_output", harness.Args{"session_id": id, "command_id": background, "offset": -1, "wait_seconds": 1}
		default:
			return callID, "run_command", harness.Args{"session_id": id, "command": "echo " + callID + " | tee -a log"}
		}
	}
	results := make([]harness.Result, calls)
	errs := make([]error, calls)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < calls; i += workers {
				callID, tool, args := call(i)
				results[i], errs[i] = c.Try(t.Context(), callID, tool, args)
			}
		})
	}
	wg.Wait()
	runs, want := map[any]bool{}, &strings.Builder{}
	for i, r := range results {
		require.NoError(t, errs[i])
		callID, tool, _ := call(i)
		require.False(t, r.IsError, "%s: %s", callID, r.Text)
		runs[r.Meta[session.MetaRunID]] = true
		if tool != "read_output" {
			want.WriteString(callID + "\n")
		}
	}
	require.Greater(t, len(runs), 4, "runs were continued")
	require.Equal(t, want.String(), c.Run(t, id, "sort log").Str("stdout"), "none lost, none doubled")

	for i := 0; i < calls; i += 7 {
		callID, tool, args := call(i)
		if tool == "read_output" {
			continue // reads what is there now
		}
		require.Equal(t, results[i].Structured, c.CallAs(t, callID, tool, args).Structured)
	}
	require.Equal(t, want.String(), c.Run(t, id, "sort log").Str("stdout"), "nothing ran again")
	require.Equal(t, snap.Structured, c.CallAs(t, "snapshot", "snapshot", snapshot).Structured)
	require.False(t, c.CallAs(t, "restore", "restore_snapshot", restore).IsError)
	require.Equal(t, want.String(), c.Run(t, id, "sort log").Str("stdout"), "not restored again")
	snapshots, _ := c.OK(t, "list_snapshots", nil).Structured["snapshots"].([]any)
	require.Len(t, snapshots, 1)

	c.Run(t, id, "touch finish")
	r, _ := waiting.Wait(t)
	require.Equal(t, "waited\n", r.Str("stdout"), r.Text)
	require.Equal(t, "w\n", c.Run(t, id, "cat waiting").Str("stdout"))
	r = c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": background, "max_bytes": 4})
	require.Equal(t, "running", r.Str("status"))
	require.Equal(t, "1\n2\n", r.Str("data"))
}
