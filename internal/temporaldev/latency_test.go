package temporaldev_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
)

func noop(context.Context) error { return nil }

// echoes answers updates until it is told to end.
func echoes(ctx workflow.Context) error {
	err := workflow.SetUpdateHandler(ctx, "noop", func(workflow.Context) error { return nil })
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandler(ctx, "activity", func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
		return workflow.ExecuteActivity(ctx, noop).Get(ctx, nil)
	})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandler(ctx, "sleep", func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Millisecond) })
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandler(ctx, "wait", func(ctx workflow.Context) error {
		return workflow.Await(ctx, func() bool { return workflow.GetSignalChannel(ctx, "go").Len() > 0 })
	})
	if err != nil {
		return err
	}
	workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
	return nil
}

// Tells the dynamic configuration from the defaults: with them an activity takes a
// poll of 50 ms, a timer a second, and the eleventh update at a time is refused.
func TestCallsAreFast(t *testing.T) {
	s := start(t, temporaldev.Options{})
	t.Logf("idle memory: %s", residentMemory(t))
	c := dial(t, s)
	w := worker.New(c, "q", worker.Options{DisableEagerActivities: true})
	w.RegisterWorkflow(echoes)
	w.RegisterActivity(noop)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "q"}, echoes)
	require.NoError(t, err)

	// The fastest tenth, so that a busy machine does not fail it.
	require.Less(t, fastTenth(t, c, run, "noop"), 25*time.Millisecond)
	require.Less(t, fastTenth(t, c, run, "activity"), 30*time.Millisecond)
	require.Less(t, fastTenth(t, c, run, "sleep"), 50*time.Millisecond)

	const waiting = 90
	accepted := make(chan error, waiting)
	for range waiting {
		go func() {
			_, err := c.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
				WorkflowID: run.GetID(), UpdateName: "wait", WaitForStage: client.WorkflowUpdateStageAccepted,
			})
			accepted <- err
		}()
	}
	for range waiting {
		require.NoError(t, <-accepted)
	}
}

func fastTenth(t *testing.T, c client.Client, run client.WorkflowRun, update string) time.Duration {
	t.Helper()
	const n = 100
	took := make([]time.Duration, 0, n)
	for range n {
		begin := time.Now()
		handle, err := c.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
			WorkflowID: run.GetID(), UpdateName: update, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		require.NoError(t, err)
		require.NoError(t, handle.Get(t.Context(), nil))
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	t.Logf("%s: p50 %s, p95 %s", update, took[n/2].Round(100*time.Microsecond), took[n*95/100].Round(100*time.Microsecond))
	return took[n/10]
}

func residentMemory(t *testing.T) string {
	t.Helper()
	raw, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
