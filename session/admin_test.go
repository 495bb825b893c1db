package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const adminSession = "s_aaaaaaaaaaaaaaaaaaaaaaaaaa"

func execution(t *testing.T, status enumspb.WorkflowExecutionStatus, owner string) *workflowpb.WorkflowExecutionInfo {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(owner)
	require.NoError(t, err)
	return &workflowpb.WorkflowExecutionInfo{
		Execution:        &commonpb.WorkflowExecution{WorkflowId: session.WorkflowIDPrefix + adminSession, RunId: "r"},
		Status:           status,
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{session.AttrOwner: p}},
	}
}

func admin(t *testing.T) (*session.Admin, *mocks.Client) {
	t.Helper()
	c := mocks.NewClient(t)
	return session.NewAdmin(session.NewClient(session.ClientOptions{Temporal: c})), c
}

func TestAdminListsOverAllOwners(t *testing.T) {
	for name, row := range map[string]struct {
		filter session.Filter
		want   string
	}{
		"all that run": {want: "WorkflowType = 'Session' AND ExecutionStatus = 'Running'"},
		"of an owner": {
			filter: session.Filter{Owner: "alice", Status: session.StatusSuspended},
			want:   "WorkflowType = 'Session' AND ExecutionStatus = 'Running' AND McpSandboxStatus = 'suspended' AND McpSandboxOwner = 'alice'",
		},
		"a quote": {
			filter: session.Filter{Owner: "a' OR 'b"},
			want:   `WorkflowType = 'Session' AND ExecutionStatus = 'Running' AND McpSandboxOwner = 'a\' OR \'b'`,
		},
		"ended": {
			filter: session.Filter{Status: session.StatusEnded},
			want:   "WorkflowType = 'Session' AND ExecutionStatus IN ('Completed','Failed','Terminated','TimedOut','Canceled')",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, c := admin(t)
			c.On("ListWorkflow", mock.Anything, mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool { return r.GetQuery() == row.want })).
				Return(&workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{
					execution(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, "alice"),
				}}, nil)
			found, err := a.Sessions(t.Context(), row.filter)
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.Equal(t, adminSession, found[0].SessionID)
			require.Equal(t, "alice", found[0].Owner)
		})
	}
}

// The owner is found, never given: a signal with another one would be ignored.
func TestAdminEndsASessionAsItsOwner(t *testing.T) {
	a, c := admin(t)
	workflowID := session.WorkflowIDPrefix + adminSession
	c.On("DescribeWorkflowExecution", mock.Anything, workflowID, "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: execution(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, "alice"),
	}, nil)
	c.On("SignalWorkflow", mock.Anything, workflowID, "", session.SignalEnd,
		mock.MatchedBy(func(e session.End) bool { return e.Owner == "alice" && e.Reason != "" })).Return(nil).Once()
	run := mocks.NewWorkflowRun(t)
	run.On("Get", mock.Anything, nil).Return(nil).Once()
	c.On("GetWorkflow", mock.Anything, workflowID, "").Return(run)
	require.NoError(t, a.EndSession(t.Context(), adminSession))
}

func TestAdminLeavesAnEndedSessionAlone(t *testing.T) {
	a, c := admin(t)
	c.On("DescribeWorkflowExecution", mock.Anything, session.WorkflowIDPrefix+adminSession, "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: execution(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, "alice"),
	}, nil)
	require.NoError(t, a.EndSession(t.Context(), adminSession))
}

// An operator is told other things than an agent.
func TestAdminErrors(t *testing.T) {
	a, c := admin(t)
	err := a.EndSession(t.Context(), "session/x") // no ID: nobody is asked
	require.Equal(t, session.NotFound, session.CodeOf(err))
	require.ErrorContains(t, err, "mcp-sandbox sessions list")
	require.ErrorContains(t, a.DeleteSnapshot(t.Context(), adminSession), "mcp-sandbox snapshots list")

	describe := c.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "")
	for cause, want := range map[error]session.Code{
		serviceerror.NewNotFound("gone"):        session.NotFound,
		errors.New("boom"):                      session.Internal,
		context.DeadlineExceeded:                session.DeadlineExceeded,
		serviceerror.NewUnavailable("no route"): session.DeadlineExceeded,
		// Temporal's answer to a query that no worker can take.
		serviceerror.NewFailedPrecondition("no poller seen"): session.Unavailable,
	} {
		describe.Return(nil, cause)
		err := a.EndSession(t.Context(), adminSession)
		require.Equal(t, want, session.CodeOf(err), "%v", cause)
		require.NotContains(t, err.Error(), "_meta")
		require.NotContains(t, err.Error(), "start_session")
		if want == session.Internal {
			require.ErrorContains(t, err, "boom")
		}
	}
}
