package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// Temporal, worker and front as three processes, each with a data dir of its own.
// Worker and Temporal are killed; the session goes on.
func TestThreeProcesses(t *testing.T) {
	t.Parallel()
	dirs := t.TempDir()
	temporalDir, workerDir, frontDir := filepath.Join(dirs, "temporal"), filepath.Join(dirs, "worker"), filepath.Join(dirs, "front")
	temporal := harness.StartProcess(t, nil, "temporal", "--data-dir", temporalDir, "--temporal-listen", "127.0.0.1:0")
	address := temporal.Await("Temporal")
	env := []string{"TEMPORAL_CONFIG_FILE=" + temporal.Await("Profile")}
	startWorker := func() *harness.Process {
		return harness.StartProcess(t, env, "worker", "--data-dir", workerDir, "--temporal-address", address, "--default-image", harness.TestImage)
	}
	worker := startWorker()
	c := harness.StartProcess(t, env, "serve", "--no-worker", "--data-dir", frontDir, "--temporal-address", address,
		"--listen", "127.0.0.1:0").Client(frontDir)
	id := c.StartSession(t, nil)
	require.Equal(t, "hi\n", c.Run(t, id, "echo hi").Str("stdout"))

	// C2: the worker sees the output, and the front tells of it.
	told := c.WithProgress().Run(t, id, "for i in $(seq 11); do echo line $i; sleep 1; done")
	require.Regexp(t, `run_command: waiting for (5|10)s; last output: line [0-9]`, strings.Join(told.Progress, "\n"))

	// G2: the worker is killed after the start and before the result.
	counted := harness.Args{"session_id": id, "command": fmt.Sprintf(counting, 0, 3)}
	pending := c.Go(t, "g2", "run_command", counted)
	c.Run(t, id, "until test -e started-0; do sleep 0.02; done")
	worker.Kill()
	worker = startWorker()
	r, took := pending.Wait(t)
	if r.Code() == "DeadlineExceeded" { // a slow machine
		r = c.Until(t, "g2", "run_command", counted)
	}
	t.Logf("the worker was killed and started again: the result came after %s of 3 s", took)
	require.Equal(t, 3, r.Num("exit_code"), r.Text)
	require.True(t, strings.HasSuffix(r.Str("stdout"), "29\n30\n"), r.Text)
	require.Equal(t, "x\n", c.Run(t, id, "cat started-0").Str("stdout"), "run once")

	// Nobody is there to take the call; a worker comes later.
	worker.Kill()
	late := c.Sent(t, "late", "run_command", harness.Args{"session_id": id, "command": "echo late >> late; cat late"})
	worker = startWorker()
	r, err := late.Outcome()
	require.NoError(t, err)
	require.Equal(t, "late\n", r.Str("stdout"), r.Text)

	handle := c.Run(t, id, "echo alive; exec sleep 600", harness.Args{"wait_seconds": 0}).Str("command_id")
	temporal.Kill()
	during := c.Sent(t, "during", "run_command", harness.Args{"session_id": id, "command": "echo x >> during; cat during"})
	temporal = harness.StartProcess(t, nil, "temporal", "--data-dir", temporalDir, "--temporal-listen", address)
	require.Equal(t, address, temporal.Await("Temporal"))
	_, err = during.Outcome()
	require.NoError(t, err, "an answer of some kind")
	r = c.Until(t, "during", "run_command", harness.Args{"session_id": id, "command": "echo x >> during; cat during"})
	require.Equal(t, "x\n", r.Str("stdout"), r.Text)
	r = c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": handle})
	require.Equal(t, "alive\n", r.Str("data"))
	require.Equal(t, "running", r.Str("status"))
	c.OK(t, "end_session", harness.Args{"session_id": id})
	worker.Kill()
}
