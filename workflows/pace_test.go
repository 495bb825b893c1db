package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

// Many large answers at once wait for one another; small ones wait for nobody, and
// one that is too large alone goes all the same.
func TestPaceSpreadsPayloads(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	// Every timer brings a task, and with it a longer history.
	length := 1
	env.SetCurrentHistoryLength(length)
	env.SetOnTimerFiredListener(func(string) {
		length += 5
		env.SetCurrentHistoryLength(length)
	})
	const calls = 7
	sent := map[int]int{} // bytes by task
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		wait := workflows.NewPace(ctx)
		began := workflow.Now(ctx)
		require.NoError(t, wait(ctx, 1000))
		require.Equal(t, began, workflow.Now(ctx), "no timer for what fits")
		done := 0
		for range calls {
			workflow.Go(ctx, func(ctx workflow.Context) {
				require.NoError(t, wait(ctx, 700<<10))
				sent[workflow.GetInfo(ctx).GetCurrentHistoryLength()] += 700 << 10
				done++
			})
		}
		if err := workflow.Await(ctx, func() bool { return done == calls }); err != nil {
			return err
		}
		require.Less(t, workflow.Now(ctx).Sub(began), time.Second)
		return wait(ctx, 5<<20)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, sent, 4, "two fit into a task")
	for _, bytes := range sent {
		require.LessOrEqual(t, bytes, 3<<19)
	}
}
