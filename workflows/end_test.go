package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

const hour = time.Hour

// Whatever goes on, an end comes through at once, every call gets an answer,
// and the sandbox is removed.
func TestEnd(t *testing.T) {
	slow := func(w *testsuite.MockCallWrapper) { w.After(hour) }
	for name, prepare := range map[string]func(h *harness){
		"while placing": func(h *harness) {
			slow(on(h, activities.PlaceSession, gives[activities.None](activities.Place{Queue: "q1"}, nil)))
		},
		"while creating": func(h *harness) {
			slow(on(h, activities.CreateSandbox, gives[activities.SandboxSpec](sandbox(1), nil)))
		},
		"while a command runs": func(h *harness) {
			slow(on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, nil)))
		},
		"while giving up": func(h *harness) {
			on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, timeout()))
			slow(on(h, activities.RefuseCall, gives[noneTask](activities.Refusal{}, nil)))
		},
		"while reviving": func(h *harness) {
			on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, errGone))
			slow(on(h, activities.ReviveSandbox, gives[activities.SandboxRef](sandbox(1), nil)))
		},
		"while interrupting": func(h *harness) {
			slow(on(h, activities.Interrupt, gives[noneTask](activities.None{}, nil)))
			h.at(time.Second, func() {
				h.SignalWorkflow(session.SignalInterrupt, session.Interrupt{Owner: owner, CallID: "c_1"})
			})
		},
		"while an interrupt revives": func(h *harness) {
			on(h, activities.Interrupt, gives[noneTask](activities.None{}, errGone))
			slow(on(h, activities.ReviveSandbox, gives[activities.SandboxRef](sandbox(1), nil)))
			h.at(time.Second, func() {
				h.SignalWorkflow(session.SignalInterrupt, session.Interrupt{Owner: owner, CallID: "c_1"})
			})
		},
		"while snapshotting": func(h *harness) {
			slow(on(h, activities.TakeSnapshot, gives[activities.SnapshotSpec](activities.SnapshotImage{}, nil)))
			call(h, time.Second, session.TakeSnapshot, "c_snap", session.SnapshotIn{})
			call(h, time.Second, session.TakeSnapshot, "c_snap2", session.SnapshotIn{}) // waits for the first
		},
		"while restoring": func(h *harness) {
			on(h, activities.CreateSandbox, gives[activities.SandboxSpec](sandbox(1), nil)).Once()
			slow(on(h, activities.CreateSandbox, gives[activities.SandboxSpec](sandbox(2), nil)))
			call(h, time.Second, session.RestoreSnapshot, "c_restore", session.RestoreSnapshotIn{SnapshotID: snapshotID})
		},
		"while lost": func(h *harness) {
			on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, errGone))
			on(h, activities.ReviveSandbox, gives[activities.SandboxRef](sandbox(1), errGone))
		},
		"while idle is asked": func(h *harness) {
			h.input.Start.IdleTimeoutSeconds = 2
			slow(on(h, activities.DescribeUsage, gives[activities.SandboxRef](activities.UsageReport{}, nil)))
		},
		"at rest": func(*harness) {},
	} {
		for how, end := range map[string]func(h *harness){
			"signal": func(h *harness) { h.end(5 * time.Minute) },
			"cancel": func(h *harness) { h.at(5*time.Minute, h.CancelWorkflow) },
		} {
			t.Run(name+" by "+how, func(t *testing.T) {
				h := newHarness(t, workflows.Options{CallBound: time.Minute})
				h.input.Start.IdleTimeoutSeconds = 7200
				prepare(h)
				a := call(h, 0, session.StartSession, "c_start", h.input.Start)
				b := call(h, 0, session.RunCommand, "c_1", echo)
				end(h)
				h.run()
				require.NoError(t, h.GetWorkflowError())
				require.Less(t, h.Now().Sub(h.began), 10*time.Minute)
				require.True(t, a.done)
				require.True(t, b.done)
				require.Equal(t, session.StatusEnded, h.describe(owner).Session.Status)
				if name != "while placing" {
					require.Equal(t, activities.RemoveSession, h.performed[len(h.performed)-1])
				}
				require.Equal(t, map[string]string{"signal": "a test ends it", "cancel": "its workflow was cancelled"}[how],
					h.describe(owner).Session.Reason)
			})
		}
	}
}

func TestIdle(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	h.input.Start.IdleTimeoutSeconds = 5
	// A call at 4.9 s of 5 s, and again: the timer that is set already wakes too early.
	call(h, 4900*time.Millisecond, session.RunCommand, "c_1", echo)
	h.at(9800*time.Millisecond, func() { h.SignalWorkflow(session.SignalTouch, nil) })
	h.run()
	h.requireEnded("it was idle")
	require.InDelta(t, 14.8, h.Now().Sub(h.began).Seconds(), 0.1)
}

func TestLongCallIsNotIdle(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	h.input.Start.IdleTimeoutSeconds = 5
	on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, nil)).After(30 * time.Second)
	a := call(h, time.Second, session.RunCommand, "c_1", echo)
	h.run()
	require.NoError(t, a.err)
	h.requireEnded("it was idle")
	require.InDelta(t, 36, h.Now().Sub(h.began).Seconds(), 0.1)
	require.Equal(t, 1, h.count(activities.DescribeUsage))
}

// A command that runs in the background counts, and a sandbox that cannot be
// asked is not idle but in trouble.
func TestIdleAsksTheSandbox(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	h.input.Start.IdleTimeoutSeconds = 5
	on(h, activities.DescribeUsage, gives[activities.SandboxRef](activities.UsageReport{
		Commands: []session.RunningCommand{{CommandID: "c_0"}},
	}, nil)).Times(2)
	on(h, activities.DescribeUsage, gives[activities.SandboxRef](activities.UsageReport{}, errGone)).Once()
	h.run()
	h.requireEnded("it was idle")
	require.InDelta(t, 20, h.Now().Sub(h.began).Seconds(), 1)
	require.Equal(t, 1, h.count(activities.ReviveSandbox))
}

// A call that comes while idleness is asked about keeps the session.
func TestCallWhileIdleIsAsked(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	h.input.Start.IdleTimeoutSeconds = 5
	on(h, activities.DescribeUsage, gives[activities.SandboxRef](activities.UsageReport{}, nil)).After(time.Second).Once()
	a := call(h, 5500*time.Millisecond, session.RunCommand, "c_1", echo)
	h.run()
	require.NoError(t, a.err)
	h.requireEnded("it was idle")
	require.InDelta(t, 10.5, h.Now().Sub(h.began).Seconds(), 0.1)
}

func TestLifetime(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	h.input.Start.MaxLifetimeSeconds = 60
	on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, nil)).After(hour)
	a := call(h, time.Second, session.RunCommand, "c_1", echo)
	h.run()
	h.requireEnded("its lifetime is over")
	require.InDelta(t, 60, h.Now().Sub(h.began).Seconds(), 0.1)
	require.Equal(t, session.FailedPrecondition, a.code())
	require.ErrorContains(t, a.err, "its lifetime is over")
}
