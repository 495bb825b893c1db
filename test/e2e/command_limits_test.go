package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// One of two cores, so that what is measured is the walls between sessions and
// not the machine.
var smallSession = harness.Args{"image": defaultImage, "cpus": 0.5, "memory_mb": 256}

func a12ForkBomb(t *testing.T, s *harness.Server) {
	c := s.Client()
	bombed, other := c.StartSession(t, smallSession), c.StartSession(t, nil)
	before := usualTime(t, c, other)

	bomb := c.Run(t, bombed, ":(){ :|:& };:", harness.Args{"wait_seconds": 0})
	stderr := harness.Args{"session_id": bombed, "command_id": bomb.Str("command_id"), "stream": "stderr"}
	require.Eventually(t, func() bool { // the first process that the limit refuses says so
		return strings.Contains(c.OK(t, "read_output", stderr).Str("data"), "fork: retry")
	}, 20*time.Second, 20*time.Millisecond)

	var calls []*harness.Pending
	for i := range 20 {
		calls = append(calls, c.Go(t, "", "run_command", harness.Args{"session_id": bombed, "command": fmt.Sprintf("echo %d", i)}))
	}
	during := usualTime(t, c, other)
	require.Less(t, during, 5*before+500*time.Millisecond, "before: %s", before)
	refused := 0
	for i, call := range calls {
		r, took := call.Wait(t)
		require.Less(t, took, 30*time.Second)
		switch r.Code() {
		case "": // a process had just ended
			require.Equal(t, fmt.Sprintf("%d\n", i), r.Str("stdout"), r.Text)
		default:
			require.Equal(t, string(session.ResourceExhausted), r.Code(), r.Text)
			require.Contains(t, r.Text, "pids limit (512", "the limit it hit")
			refused++
		}
	}
	require.Positive(t, refused)

	stop(t, c, bombed, bomb, "TERM")
	require.Equal(t, "back\n", c.Run(t, bombed, "echo back").Str("stdout"))
	usage, _ := c.OK(t, "get_session", harness.Args{"session_id": bombed}).Structured["usage"].(map[string]any)
	require.Less(t, usage["pids"], 60.0, "nothing of the bomb is left")
}

func a12Memory(t *testing.T, s *harness.Server) {
	c := s.Client()
	greedy, other := c.StartSession(t, smallSession), c.StartSession(t, nil)
	before := usualTime(t, c, other)

	// 20 times 30 MiB is over twice the limit; none of them is large. Each holds
	// its own until all have it or are gone, on however slow a machine.
	const twenty = `rm -f go has.*
for i in $(seq 20); do
	python3 -c 'x = bytearray(30 << 20); import os, time; open("has.'$i'", "w").close()
while not os.path.exists("go"): time.sleep(0.05)' &
	pids[i]=$!
done
for i in $(seq 20); do until [ -e has.$i ] || ! kill -0 ${pids[i]} 2>/dev/null; do sleep 0.05; done; done
>go; wait; echo done`
	call := c.Go(t, "", "run_command", harness.Args{"session_id": greedy, "command": twenty, "wait_seconds": 50})
	during := usualTime(t, c, other)
	require.Less(t, during, 5*before+500*time.Millisecond, "before: %s", before)
	r, _ := call.Wait(t)
	require.False(t, r.IsError, r.Text)
	require.Equal(t, "done\n", r.Str("stdout"), "the shell itself was not killed")
	require.Equal(t, true, r.Structured["oom_killed"], r.Text)
	require.Contains(t, r.Text, "256 MiB", "the limit it hit")

	// The same in the background, stopped while memory is full.
	r = c.Run(t, greedy, "echo started; "+strings.Replace(twenty, ">go", "sleep 600", 1), harness.Args{"wait_seconds": 0})
	c.OK(t, "read_output", harness.Args{"session_id": greedy, "command_id": r.Str("command_id"), "wait_seconds": 10})
	require.Equal(t, "stopped", stop(t, c, greedy, r, "TERM").Str("status"))
	require.Equal(t, "back\n", c.Run(t, greedy, "echo back").Str("stdout"))
	require.Equal(t, "0\n", count(t, c, greedy, "bytearray"))
}

// usualTime is how long an `echo hi` with a list_sessions takes in a session,
// the median of some. Other tests use the machine too.
func usualTime(t *testing.T, c *harness.Client, sessionID string) time.Duration {
	t.Helper()
	var times []time.Duration
	for range 11 {
		r, ran := c.Timed(t, "run_command", harness.Args{"session_id": sessionID, "command": "echo hi"})
		require.Equal(t, "hi\n", r.Str("stdout"), r.Text)
		r, listed := c.Timed(t, "list_sessions", nil)
		require.False(t, r.IsError, r.Text)
		require.Less(t, ran+listed, 5*time.Second)
		times = append(times, ran+listed)
	}
	slices.Sort(times)
	return times[len(times)/2]
}
