package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

// grow makes a run long enough to be continued, after 2 s.
func (h *harness) grow() {
	h.at(2*time.Second, func() {
		h.SetContinueAsNewSuggested(true)
		h.SignalWorkflow(session.SignalTouch, nil) // a task, so that it is seen
	})
}

// A call that waits is asked to come again, and the next run takes it up under
// the same ID.
func TestContinueAsNew(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, nil)).After(hour)
	a := call(h, time.Second, session.RunCommand, "c_1", echo)
	b := call(h, time.Second, session.StartSession, "c_start", h.input.Start)
	h.grow()
	h.run()
	require.Equal(t, session.FailureReattach, session.FailureType(a.err))
	require.NoError(t, b.err)
	require.Zero(t, h.count(activities.RemoveSession))

	next := h.next()
	on(next, activities.RunCommand, func(c runTask) (session.RunCommandOut, error) {
		require.Equal(t, 1, c.Ref.Incarnation)
		require.Equal(t, "c_1", c.CallID)
		return session.RunCommandOut{CommandID: c.CallID, Status: session.CommandExited}, nil
	})
	a = call(next, time.Second, session.RunCommand, "c_1", echo)
	b = call(next, time.Second, session.StartSession, "c_start", next.input.Start)
	next.end(time.Minute)
	next.run()
	require.NoError(t, a.err)
	require.NoError(t, b.err)
	require.Equal(t, session.StatusRunning, b.out.Status)
	next.requireEnded("a test ends it")
	require.Zero(t, next.count(activities.CreateSandbox))
}

// While a run drains, a change of the sandbox is finished, other calls are asked
// to come again, and only then it continues.
func TestDraining(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.TakeSnapshot, gives[activities.SnapshotSpec](activities.SnapshotImage{SizeBytes: 7}, nil)).After(time.Minute)
	a := call(h, time.Second, session.TakeSnapshot, "c_snap", session.SnapshotIn{})
	h.grow()
	b := call(h, 3*time.Second, session.RunCommand, "c_1", echo)
	h.run()
	require.NoError(t, a.err)
	require.Equal(t, session.FailureDraining, session.FailureType(b.rejected))
	require.InDelta(t, 61, h.Now().Sub(h.began).Seconds(), 0.1)

	next := h.next()
	again := call(next, time.Second, session.TakeSnapshot, "c_snap", session.SnapshotIn{})
	next.end(time.Minute)
	next.run()
	require.NoError(t, again.err)
	require.Equal(t, a.out, again.out)
	require.Zero(t, next.count(activities.TakeSnapshot), "at most once by its call ID")
}

func TestReusedIDOfASnapshot(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	call(h, time.Second, session.TakeSnapshot, "c_snap", session.SnapshotIn{})
	h.grow()
	h.run()
	next := h.next()
	a := call(next, time.Second, session.RunCommand, "c_snap", echo)
	next.end(time.Minute)
	next.run()
	require.Equal(t, session.InvalidArgument, a.code())
	require.Zero(t, next.count(activities.RunCommand))
}

// An end, or a cancellation, that comes while a run drains is not forgotten.
func TestEndWhileDraining(t *testing.T) {
	for name, end := range map[string]func(h *harness){
		"signal": func(h *harness) { h.end(3 * time.Second) },
		"cancel": func(h *harness) { h.at(3*time.Second, h.CancelWorkflow) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, workflows.Options{})
			on(h, activities.TakeSnapshot, gives[activities.SnapshotSpec](activities.SnapshotImage{}, nil)).After(hour)
			a := call(h, time.Second, session.TakeSnapshot, "c_snap", session.SnapshotIn{})
			h.grow()
			end(h)
			h.run()
			require.True(t, a.done)
			h.requireEnded("")
			require.Less(t, h.Now().Sub(h.began), time.Minute)
		})
	}
}

// An interrupt that the run could not see to goes on in the next.
func TestInterruptIsCarried(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.Interrupt, gives[noneTask](activities.None{}, nil)).After(hour)
	h.at(time.Second, func() {
		h.SignalWorkflow(session.SignalInterrupt, session.Interrupt{Owner: owner, CallID: "c_1"})
	})
	h.grow()
	h.run()
	next := h.next()
	next.end(time.Minute)
	next.run()
	require.Equal(t, 1, next.count(activities.Interrupt))
}
