package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

// runReaper runs a reaper whose activity has these outcomes, one an attempt.
func runReaper(t *testing.T, outcomes ...error) (h *harness, rep session.ReapReport, err error) {
	t.Helper()
	h = newHarness(t, workflows.Options{})
	in := session.ReapInput{HostID: "h1", ListLeft: true}
	h.OnActivity(activities.Reap, mock.Anything, mock.Anything).Return(func(ctx context.Context, got session.ReapInput) (session.ReapReport, error) {
		require.Equal(t, in, got)
		require.Equal(t, activities.HostQueue("h1"), activity.GetInfo(ctx).TaskQueue)
		h.note(activities.Reap)
		return session.ReapReport{HostID: got.HostID, Removed: 3}, outcomes[min(h.count(activities.Reap), len(outcomes))-1]
	})
	h.ExecuteWorkflow(session.ReaperWorkflowType, in)
	require.True(t, h.IsWorkflowCompleted())
	if err = h.GetWorkflowError(); err == nil {
		require.NoError(t, h.GetWorkflowResult(&rep))
	}
	return h, rep, err
}

func TestReaper(t *testing.T) {
	fault := errors.New("the engine does not answer")
	t.Run("looks once", func(t *testing.T) {
		h, rep, err := runReaper(t, nil)
		require.NoError(t, err)
		require.Equal(t, 3, rep.Removed)
		require.Equal(t, 1, h.count(activities.Reap))
	})
	t.Run("tries again", func(t *testing.T) {
		_, rep, err := runReaper(t, fault, nil)
		require.NoError(t, err)
		require.Equal(t, 3, rep.Removed)
	})
	t.Run("gives up", func(t *testing.T) { // the schedule brings the next
		h, _, err := runReaper(t, fault)
		require.ErrorContains(t, err, fault.Error())
		require.Equal(t, 3, h.count(activities.Reap))
		require.Less(t, h.Now().Sub(h.began), time.Minute)
	})
	t.Run("its host has no worker", func(t *testing.T) {
		h, _, err := runReaper(t, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil))
		var timeout *temporal.TimeoutError
		require.ErrorAs(t, err, &timeout)
		require.Equal(t, enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, timeout.TimeoutType())
		require.Equal(t, 1, h.count(activities.Reap))
	})
}

// A scheduled look that found nothing to do says so, for the next to delete it.
func TestReaperWithNothingToDo(t *testing.T) {
	for name, row := range map[string]struct {
		in      session.ReapInput
		removed int
		want    int
	}{
		"nothing":          {in: session.ReapInput{HostID: "h1"}, want: 1},
		"something":        {in: session.ReapInput{HostID: "h1"}, removed: 1},
		"nothing, as told": {in: session.ReapInput{HostID: "h1", ListLeft: true}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, workflows.Options{})
			h.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Maybe()
			h.OnActivity(activities.Reap, mock.Anything, mock.Anything).Return(session.ReapReport{Removed: row.removed}, nil)
			h.ExecuteWorkflow(session.ReaperWorkflowType, row.in)
			require.NoError(t, h.GetWorkflowError())
			h.AssertNumberOfCalls(t, "workflow.UpsertTypedSearchAttributes", row.want)
		})
	}
}
