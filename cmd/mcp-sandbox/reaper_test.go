package main

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// A host has one schedule, whose first run is as soon as its worker starts.
func TestScheduleOfAHost(t *testing.T) {
	t.Run("new", func(t *testing.T) {
		c := mocks.NewScheduleClient(t)
		c.On("Create", mock.Anything, mock.MatchedBy(func(o client.ScheduleOptions) bool {
			in := o.Action.(*client.ScheduleWorkflowAction).Args[0].(session.ReapInput)
			return o.ID == "reaper/h1" && in == session.ReapInput{HostID: "h1"} && o.TriggerImmediately && !o.Paused &&
				o.Spec.Intervals[0].Every == time.Minute && o.CatchupWindow == time.Minute && o.Overlap == enumspb.SCHEDULE_OVERLAP_POLICY_SKIP
		})).Return(nil, nil)
		require.NoError(t, setSchedule(t.Context(), c, "h1", time.Minute))
	})
	t.Run("known", func(t *testing.T) {
		c, handle := known(t)
		handle.On("Trigger", mock.Anything, mock.Anything).Return(nil)
		require.NoError(t, setSchedule(t.Context(), c, "h1", 2*time.Minute))
		s := updated(t, handle)
		require.Equal(t, 2*time.Minute, s.Spec.Intervals[0].Every)
		require.False(t, s.State.Paused)
	})
	t.Run("never", func(t *testing.T) {
		c, handle := known(t)
		require.NoError(t, setSchedule(t.Context(), c, "h1", 0), "and it is not triggered")
		require.True(t, updated(t, handle).State.Paused)
	})
	t.Run("not possible", func(t *testing.T) { // the worker works all the same
		schedules := mocks.NewScheduleClient(t)
		schedules.On("Create", mock.Anything, mock.Anything).Return(nil, errors.New("permission denied"))
		c := mocks.NewClient(t)
		c.On("ScheduleClient").Return(schedules)
		var log bytes.Buffer
		s := keepSchedule(t.Context(), c, "h1", time.Minute, slog.New(slog.NewTextHandler(&log, nil)))
		<-s.done
		s.stop()
		require.Contains(t, log.String(), "permission denied")
	})
}

func known(t *testing.T) (*mocks.ScheduleClient, *mocks.ScheduleHandle) {
	t.Helper()
	c, handle := mocks.NewScheduleClient(t), mocks.NewScheduleHandle(t)
	c.On("Create", mock.Anything, mock.Anything).Return(nil, temporal.ErrScheduleAlreadyRunning)
	c.On("GetHandle", mock.Anything, "reaper/h1").Return(handle)
	handle.On("Update", mock.Anything, mock.Anything).Return(nil)
	return c, handle
}

// updated gives what the schedule was changed to.
func updated(t *testing.T, handle *mocks.ScheduleHandle) *client.Schedule {
	t.Helper()
	for _, call := range handle.Calls {
		if call.Method == "Update" {
			u, err := call.Arguments[1].(client.ScheduleUpdateOptions).DoUpdate(client.ScheduleUpdateInput{})
			require.NoError(t, err)
			return u.Schedule
		}
	}
	t.Fatal("not updated")
	return nil
}

func TestReapedTable(t *testing.T) {
	reports := []session.ReapReport{
		{HostID: "h1", Failed: 1, Unlisted: 7, Things: []session.ReapedThing{
			{Kind: "container", ID: "0123456789abcdef", SessionID: "s_a", CreatedAt: "then", Outcome: session.ReapFailed, Reason: "its session has ended; busy"},
			{Kind: "volume", ID: "mcp-sandbox-a", SessionID: "s_a", CreatedAt: "then", Outcome: session.ReapRemoved, Reason: "its session has ended"},
			{Kind: "image", ID: "sha256:fedcba9876543210", SessionID: "s_b", SnapshotID: "snap_b", CreatedAt: "then", Outcome: session.ReapLeft, Reason: "its snapshot is kept"},
		}},
		{HostID: "h2", Error: "no worker of this host took it up"},
	}
	var out bytes.Buffer
	require.NoError(t, writeReaped(&out, reports, &output{}))
	require.Equal(t, `OUTCOME  KIND       ID             OF      CREATED  HOST  REASON
failed   container  0123456789ab   s_a     then     h1    its session has ended; busy
removed  volume     mcp-sandbox-a  s_a     then     h1    its session has ended
left     image      fedcba987654   snap_b  then     h1    its snapshot is kept
`, out.String())
	require.EqualError(t, reapFailures(reports), "host h1: 1 could not be removed; the next look tries again\nhost h2: no worker of this host took it up")
	require.NoError(t, reapFailures([]session.ReapReport{{Removed: 3, Left: 2}}))
}
