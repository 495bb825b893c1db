package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Only a definite word is an answer.
func TestLife(t *testing.T) {
	for status := range enumspb.WorkflowExecutionStatus_name {
		s := enumspb.WorkflowExecutionStatus(status)
		var want session.Life
		switch s {
		case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED:
			want = session.LifeRunning
		case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
			enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
			want = session.LifeClosed
		default:
		}
		t.Run(s.String(), func(t *testing.T) {
			requireLife(t, want, &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: execution(t, s, "bob")}, nil)
		})
	}
	requireLife(t, session.LifeUnknown, nil, serviceerror.NewNotFound("workflow not found for ID"))
	for _, err := range []error{
		serviceerror.NewNamespaceNotFound("default"), serviceerror.NewUnavailable(""), serviceerror.NewPermissionDenied("", ""),
		serviceerror.NewDeadlineExceeded(""), serviceerror.NewInvalidArgument(""), context.Canceled, errors.New("not found"),
	} {
		requireLife(t, "", nil, err)
	}
	requireLife(t, "", nil, nil) // an answer without a status
}

func requireLife(t *testing.T, want session.Life, resp *workflowservice.DescribeWorkflowExecutionResponse, err error) {
	t.Helper()
	c := mocks.NewClient(t)
	c.On("DescribeWorkflowExecution", mock.Anything, "w", "r").Return(resp, err)
	got, err := session.NewClient(session.ClientOptions{Temporal: c}).Life(t.Context(), "w", "r")
	require.Equal(t, want, got, "%v", err)
	require.Equal(t, want == "", err != nil)
}

// adminWithHosts has schedules of these hosts, among others.
func adminWithHosts(t *testing.T, hosts ...string) (*session.Admin, *mocks.Client) {
	t.Helper()
	a, c := admin(t)
	ids := []string{"somebody-else's"}
	for _, h := range hosts {
		ids = append(ids, session.ReaperIDPrefix+h)
	}
	list := mocks.NewScheduleListIterator(t)
	list.On("HasNext").Return(func() bool { return len(ids) > 0 })
	list.On("Next").Return(func() (*client.ScheduleListEntry, error) {
		e := &client.ScheduleListEntry{ID: ids[0]}
		ids = ids[1:]
		return e, nil
	})
	schedules := mocks.NewScheduleClient(t)
	schedules.On("List", mock.Anything, mock.Anything).Return(list, nil)
	c.On("ScheduleClient").Return(schedules)
	return a, c
}

func TestReapWithoutHosts(t *testing.T) {
	a, _ := adminWithHosts(t)
	_, err := a.Reap(t.Context(), true)
	require.Equal(t, session.FailedPrecondition, session.CodeOf(err))
	require.ErrorContains(t, err, "start one with mcp-sandbox serve or worker")
}

// A host that gives no report hides those of the others not.
func TestReapOverHosts(t *testing.T) {
	a, c := adminWithHosts(t, "there", "away")
	outcomes := map[string]error{"away": temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil), "there": nil}
	runOf := func(host string) client.WorkflowRun {
		run := mocks.NewWorkflowRun(t)
		run.On("GetID").Return(host).Maybe()
		run.On("Get", mock.Anything, mock.Anything).Return(func(_ context.Context, out any) error {
			if rep, ok := out.(*session.ReapReport); ok {
				*rep = session.ReapReport{HostID: host, DryRun: true, Removed: 2}
			}
			return outcomes[host]
		}).Maybe()
		return run
	}
	c.On("ExecuteWorkflow", mock.Anything, mock.Anything, session.ReaperWorkflowType, mock.Anything).Return(
		func(_ context.Context, _ client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
			in := args[0].(session.ReapInput)
			require.True(t, in.DryRun)
			return runOf(in.HostID), nil
		})
	c.On("GetWorkflow", mock.Anything, mock.Anything, "").Return(func(_ context.Context, id, _ string) client.WorkflowRun { return runOf(id) })
	reports, err := a.Reap(t.Context(), true)
	require.NoError(t, err)
	require.Len(t, reports, 2)
	require.Equal(t, "away", reports[0].HostID)
	require.Contains(t, reports[0].Error, "delete its schedule reaper/away in Temporal")
	require.Zero(t, reports[0].Removed)
	require.Equal(t, session.ReapReport{HostID: "there", DryRun: true, Removed: 2}, reports[1])
}

// Only what is over for a while, of this host and found nothing, is deleted.
func TestForgetReaps(t *testing.T) {
	c := mocks.NewClient(t)
	c.On("ListWorkflow", mock.Anything, mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool {
		return strings.HasPrefix(r.GetQuery(), "WorkflowType = 'Reaper' AND ExecutionStatus = 'Completed' AND McpSandboxStatus = 'nothing to do' AND McpSandboxHost = 'h1' AND CloseTime < '20")
	})).Return(&workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{
		execution(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, "a"), execution(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, "b"),
	}}, nil)
	service := &deletions{answers: []error{serviceerror.NewNotFound("somebody else did"), nil}}
	c.On("WorkflowService").Return(service)
	require.NoError(t, session.NewClient(session.ClientOptions{Temporal: c}).ForgetReaps(t.Context(), "ns", "h1"))
	require.Empty(t, service.answers)
}

// deletions answers one after the other.
type deletions struct {
	workflowservice.WorkflowServiceClient
	answers []error
}

func (d *deletions) DeleteWorkflowExecution(context.Context, *workflowservice.DeleteWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.DeleteWorkflowExecutionResponse, error) {
	err := d.answers[0]
	d.answers = d.answers[1:]
	return nil, err
}
