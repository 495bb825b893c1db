package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

// runSnapshot runs a snapshot's workflow with a retention of a day.
func runSnapshot(t *testing.T, prepare func(h *harness)) *harness {
	t.Helper()
	h := newHarness(t, workflows.Options{})
	h.OnActivity(activities.RemoveSnapshot, mock.Anything, mock.Anything).Return(func(_ context.Context, id string) error {
		h.note(activities.RemoveSnapshot)
		require.Equal(t, snapshotID, id)
		return nil
	}).After(time.Minute)
	prepare(h)
	h.ExecuteWorkflow(session.SnapshotWorkflowType, workflows.SnapshotInput{
		Owner: owner, RetentionSeconds: 86400,
		Record: session.SnapshotRecord{Found: true, Info: session.SnapshotInfo{SnapshotID: snapshotID}, HostQueue: "q1", HostID: "h1"},
	})
	require.True(t, h.IsWorkflowCompleted())
	require.NoError(t, h.GetWorkflowError())
	require.Equal(t, 1, h.count(activities.RemoveSnapshot))
	return h
}

func (h *harness) record(asker string) session.SnapshotRecord {
	v, err := h.QueryWorkflow(session.QueryStatus, session.Asker{Owner: asker})
	require.NoError(h.t, err)
	var rec session.SnapshotRecord
	require.NoError(h.t, v.Get(&rec))
	return rec
}

func TestDeleteSnapshot(t *testing.T) {
	in := session.DeleteSnapshotIn{SnapshotID: snapshotID}
	var a, b, c *answer[session.DeleteSnapshotOut]
	h := runSnapshot(t, func(h *harness) {
		c = callAs(h, time.Minute, session.DeleteSnapshot, "c_0", "mallory", in)
		a = call(h, hour, session.DeleteSnapshot, "c_1", in)
		b = call(h, hour+time.Second, session.DeleteSnapshot, "c_2", in)
		h.at(30*time.Minute, func() {
			require.True(t, h.record(owner).Found)
			require.False(t, h.record("mallory").Found)
		})
		h.at(hour+2*time.Second, func() { require.False(t, h.record(owner).Found, "gone at once") })
	})
	require.Equal(t, session.NotFound, session.CodeOf(session.DecodeError(c.rejected)))
	for _, x := range []*answer[session.DeleteSnapshotOut]{a, b} {
		require.NoError(t, x.err)
		require.Equal(t, snapshotID, x.out.SnapshotID)
		require.Equal(t, hour+time.Minute, x.after, "when the image is gone")
	}
	require.False(t, h.record(owner).Found)
}

func TestSnapshotRetention(t *testing.T) {
	h := runSnapshot(t, func(*harness) {})
	require.Equal(t, 24*hour+time.Minute, h.Now().Sub(h.began))
	require.False(t, h.record(owner).Found)
}

// A cancelled snapshot leaves no image behind.
func TestSnapshotCancelled(t *testing.T) {
	h := runSnapshot(t, func(h *harness) { h.at(hour, h.CancelWorkflow) })
	require.Equal(t, hour+time.Minute, h.Now().Sub(h.began))
}
