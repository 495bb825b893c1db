package replay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

// A reset takes the workflow back, not the sandbox: calls after that point are
// made again under their IDs, and the guest's journal has what became of them.
func TestReset(t *testing.T) {
	for _, back := range []int{1, 4} { // the first workflow task, and one in the middle
		t.Run(fmt.Sprint("task ", back), func(t *testing.T) {
			b := install(t, workflows.Options{}).start(session.StartSessionIn{Name: "reset"})
			var answers []session.RunCommandOut
			appends := func(n int) session.RunCommandIn {
				return session.RunCommandIn{Command: fmt.Sprintf("echo %d >> log; echo answer %d", n, n)}
			}
			for n := range 8 {
				answers = append(answers, do(b, session.RunCommand, fmt.Sprintf("c_%d", n), appends(n)))
			}
			long := session.RunCommandIn{Command: "echo before; exec sleep 600", WaitSeconds: new(0)}
			do(b, session.RunCommand, "c_long", long)
			ledger := do(b, session.ReadFile, "", session.ReadFileIn{Path: "log"}).Content
			require.Equal(t, 8, strings.Count(ledger, "\n"))

			workflowID := session.WorkflowIDPrefix + b.id
			var tasks []int64
			for _, e := range b.histories(workflowID)[0].Events {
				if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
					tasks = append(tasks, e.GetEventId())
				}
			}
			require.Greater(t, len(tasks), 8)
			_, err := b.temporal.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
				Namespace:         "default",
				WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
				Reason:            "a test", RequestId: uuid.NewString(), WorkflowTaskFinishEventId: tasks[back-1],
			})
			require.NoError(t, err)

			for n := range 8 {
				require.Equal(t, answers[n], do(b, session.RunCommand, fmt.Sprintf("c_%d", n), appends(n)), "the same ID, the same answer")
			}
			require.Equal(t, ledger, do(b, session.ReadFile, "", session.ReadFileIn{Path: "log"}).Content, "nothing ran again")
			out := do(b, session.ReadOutput, "", session.ReadOutputIn{CommandID: "c_long"})
			require.Equal(t, "before\n", out.Data)
			require.Equal(t, session.CommandRunning, out.Status)
			do(b, session.RunCommand, "c_new", session.RunCommandIn{Command: "true"})
			ended := time.Now()
			do(b, session.EndSession, "", session.EndSessionIn{})
			require.Less(t, time.Since(ended), 10*time.Second)
		})
	}
}
