package workflows_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

func TestStart(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	a := call(h, 0, session.StartSession, "c_start", h.input.Start)
	h.end(time.Second)
	h.run()
	require.NoError(t, a.err)
	require.Equal(t, session.StatusRunning, a.out.Status)
	require.Equal(t, "/workspace", a.out.WorkingDir)
	h.requireEnded("a test ends it")
	require.Equal(t, []string{activities.PlaceSession, activities.CreateSandbox, activities.RemoveSession}, h.performed)
}

// start_session answers before its client gives up, and operations wait.
func TestSlowStart(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.CreateSandbox, func(s activities.SandboxSpec) (activities.Sandbox, error) {
		return sandbox(s.Incarnation), nil
	}).After(20 * time.Minute) // longer than a call may try to reach its sandbox
	a := call(h, 0, session.StartSession, "c_start", h.input.Start)
	b := call(h, time.Second, session.RunCommand, "c_1", session.RunCommandIn{Command: "x"})
	h.run()
	require.NoError(t, a.err)
	require.Equal(t, session.StatusStarting, a.out.Status)
	require.Equal(t, 45*time.Second, a.after)
	require.NoError(t, b.err)
	require.GreaterOrEqual(t, b.after, 20*time.Minute)
	require.Equal(t, 1, h.count(activities.RunCommand))
	h.requireEnded("it was idle")
}

func TestStartFails(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		code session.Code
	}{
		"for good":       {session.EncodeError(session.Errorf(session.NotFound, "no image nix")), session.NotFound},
		"gone":           {errGone, session.Unavailable},
		"in no time":     {timeout(), session.Unavailable},
		"again and over": {errors.New("engine is away"), session.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, workflows.Options{})
			on(h, activities.CreateSandbox, gives[activities.SandboxSpec](activities.Sandbox{}, row.err))
			a := call(h, 0, session.StartSession, "c_start", h.input.Start)
			b := call(h, 0, session.RunCommand, "c_1", session.RunCommandIn{Command: "x"})
			h.run()
			h.requireEnded("it could not start")
			d := h.describe(owner)
			require.Equal(t, row.code, d.Failure.Code)
			if a.err != nil { // else it had answered before
				require.Equal(t, row.code, a.code())
			}
			require.True(t, b.done)
			require.Error(t, b.err)
			require.Zero(t, h.count(activities.RunCommand))
		})
	}
}

func TestFork(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	h.input.Start.SnapshotID = snapshotID
	on(h, activities.CreateSandbox, func(s activities.SandboxSpec) (activities.Sandbox, error) {
		require.Equal(t, snapshotID, s.SnapshotID)
		require.Equal(t, "base", s.Image)
		return sandbox(s.Incarnation), nil
	})
	h.end(time.Second)
	h.run()
	h.requireEnded("a test ends it")
	require.Equal(t, activities.DescribeSnapshot, h.performed[0])
}

func TestForkOfNothing(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	h.input.Start.SnapshotID = snapshotID
	on(h, activities.DescribeSnapshot, gives[activities.SnapshotQuery](session.SnapshotRecord{},
		session.EncodeError(session.NoSnapshot(snapshotID))))
	a := call(h, 0, session.StartSession, "c_start", h.input.Start)
	h.run()
	require.NoError(t, h.GetWorkflowError())
	require.Equal(t, session.NotFound, a.code())
	require.Zero(t, h.count(activities.RemoveSession), "nothing was placed")
}

// The lifetime counts from the beginning, ready or not.
func TestLifetimeEndsWhileStarting(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	h.input.Start.MaxLifetimeSeconds = 60
	on(h, activities.CreateSandbox, gives[activities.SandboxSpec](sandbox(1), nil)).After(10 * time.Minute)
	h.run()
	h.requireEnded("its lifetime is over")
	require.Less(t, h.Now().Sub(h.began), 2*time.Minute)
}

// A start that is sent again with other arguments to a run that does not know
// the first is refused, and does not stand in its way.
func TestStartWithOtherArguments(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	other := h.input.Start
	other.Image = "other"
	a := call(h, time.Second, session.StartSession, "c_start", other)
	b := call(h, 2*time.Second, session.StartSession, "c_start", h.input.Start)
	h.end(3 * time.Second)
	h.run()
	require.Equal(t, session.InvalidArgument, session.CodeOf(session.DecodeError(a.rejected)))
	require.NoError(t, b.err)
}

// Nobody learns of a session, or touches it, but its owner.
func TestOwner(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	a := callAs(h, time.Second, session.RunCommand, "c_1", "mallory", session.RunCommandIn{Command: "x"})
	h.at(2*time.Second, func() {
		h.SignalWorkflow(session.SignalEnd, session.End{Owner: "mallory"})
		h.SignalWorkflow(session.SignalInterrupt, session.Interrupt{Owner: "mallory", CallID: "c_1"})
		require.Equal(t, session.Description{}, h.describe("mallory"))
		require.Equal(t, session.StatusRunning, h.describe(owner).Session.Status)
	})
	h.end(3 * time.Second)
	h.run()
	unknown := session.NoSession(sessionID)
	require.EqualError(t, session.DecodeError(a.rejected), unknown.Error())
	require.Zero(t, h.count(activities.RunCommand)+h.count(activities.Interrupt))
	h.requireEnded("a test ends it")
}

// What a caller that is not session.Client leaves out has its default.
func TestDefaultsAreFilledIn(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	var got session.RunCommandIn
	on(h, activities.RunCommand, func(c activities.Task[session.RunCommandIn]) (session.RunCommandOut, error) {
		got = c.In
		require.Equal(t, map[string]string{"A": "B"}, c.Env)
		return session.RunCommandOut{}, nil
	})
	h.at(time.Second, func() {
		h.UpdateWorkflowNoRejection(session.RunCommand.Name, "c_1", t,
			session.Request[session.RunCommandIn]{Owner: owner, In: session.RunCommandIn{Command: "x"}})
	})
	h.end(2 * time.Second)
	h.run()
	require.Equal(t, 32768, got.MaxOutputBytes)
}
