package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

type (
	runTask  = activities.Task[session.RunCommandIn]
	noneTask = activities.Task[activities.None]
)

var echo = session.RunCommandIn{Command: "echo"}

func TestCalls(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	a := call(h, time.Second, session.RunCommand, "c_1", echo)
	b := call(h, time.Second, session.ReadFile, "c_2", session.ReadFileIn{Path: "f"})
	c := call(h, time.Second, session.GetSession, "c_3", session.GetSessionIn{})
	d := call(h, time.Second, session.RunCommand, "c_4", session.RunCommandIn{})
	h.end(2 * time.Second)
	e := call(h, 3*time.Second, session.RunCommand, "c_5", echo)
	h.run()
	require.NoError(t, a.err)
	require.Equal(t, "c_1", a.out.CommandID)
	require.NotEmpty(t, a.digest)
	require.NoError(t, b.err)
	require.Equal(t, "x", b.out.Content)
	require.NoError(t, c.err)
	require.Equal(t, 2, c.out.Usage.PIDs)
	require.Equal(t, session.InvalidArgument, session.CodeOf(session.DecodeError(d.rejected)))
	require.False(t, e.accepted)
	h.requireEnded("a test ends it")
}

// An error carries the digest: by it the client sees that an ID was used twice.
func TestErrorsCarryTheDigest(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, session.EncodeError(session.Errorf(session.NotFound, "no such directory"))))
	a := call(h, time.Second, session.RunCommand, "c_1", echo)
	h.run()
	var app *temporal.ApplicationError
	require.ErrorAs(t, a.err, &app)
	require.Equal(t, string(session.NotFound), app.Type())
	require.True(t, app.NonRetryable())
	var digest string
	require.NoError(t, app.Details(&digest))
	want := echo
	require.NoError(t, session.Validate(&want))
	d, err := session.Digest(session.RunCommand.Name, want)
	require.NoError(t, err)
	require.Equal(t, d, digest)
}

// A timeout proves nothing: the same ID goes again within the call's bound, and
// only the guest's word makes the outcome Unavailable.
func TestGiveUp(t *testing.T) {
	for name, row := range map[string]struct {
		refusal activities.Refusal
		err     error
		code    session.Code
	}{
		"refused":        {activities.Refusal{Refused: true}, nil, session.Unavailable},
		"had begun":      {activities.Refusal{}, nil, session.Lost},
		"no answer":      {activities.Refusal{}, timeout(), session.Lost},
		"container gone": {activities.Refusal{}, errGone, session.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, workflows.Options{CallBound: time.Minute})
			on(h, activities.RunCommand, func(c runTask) (session.RunCommandOut, error) {
				require.Equal(t, "c_1", c.CallID)
				return session.RunCommandOut{}, timeout()
			})
			on(h, activities.RefuseCall, gives[noneTask](row.refusal, row.err))
			a := call(h, time.Second, session.RunCommand, "c_1", echo)
			h.run()
			require.Equal(t, row.code, a.code(), "%v", a.err)
			require.Greater(t, h.count(activities.RunCommand), 1)
			require.GreaterOrEqual(t, a.after, 30*time.Second)
			require.LessOrEqual(t, a.after, 3*time.Minute)
			h.requireEnded("it was idle")
		})
	}
}

func TestTimeoutIsOvercome(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, timeout())).Times(3)
	a := call(h, time.Second, session.RunCommand, "c_1", echo)
	h.run()
	require.NoError(t, a.err)
	require.Zero(t, h.count(activities.RefuseCall))
}

func TestInterrupt(t *testing.T) {
	for name, when := range map[string]time.Duration{
		"before its call": 500 * time.Millisecond, "while it runs": 2 * time.Second, "before the sandbox is there": 0,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, workflows.Options{})
			on(h, activities.CreateSandbox, gives[activities.SandboxSpec](sandbox(1), nil)).After(100 * time.Millisecond)
			on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{Status: session.CommandStopped}, nil)).After(5 * time.Second)
			on(h, activities.Interrupt, func(c noneTask) (activities.None, error) {
				require.Equal(t, "c_1", c.CallID)
				return activities.None{}, nil
			})
			a := call(h, time.Second, session.RunCommand, "c_1", echo)
			h.at(when, func() {
				for range 3 {
					h.SignalWorkflow(session.SignalInterrupt, session.Interrupt{Owner: owner, CallID: "c_1"})
				}
			})
			h.end(10 * time.Second)
			h.run()
			require.NoError(t, a.err)
			require.Equal(t, 1, h.count(activities.Interrupt), "one is enough")
		})
	}
}

// A signal that cannot be read leaves the others heard.
func TestBrokenSignals(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	h.at(time.Second, func() {
		h.SignalWorkflow(session.SignalEnd, "not an object")
		h.SignalWorkflow(session.SignalInterrupt, []int{1})
	})
	h.at(2*time.Second, func() {
		h.SignalWorkflow(session.SignalInterrupt, session.Interrupt{Owner: owner, CallID: "c_1"})
	})
	h.end(3 * time.Second)
	h.run()
	require.Equal(t, 1, h.count(activities.Interrupt))
	h.requireEnded("a test ends it")
}

// An interrupt finds the sandbox gone as a call does, and is sent again.
func TestInterruptOfALostSandbox(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.Interrupt, gives[noneTask](activities.None{}, errGone)).Once()
	h.at(time.Second, func() {
		h.SignalWorkflow(session.SignalInterrupt, session.Interrupt{Owner: owner, CallID: "c_1"})
	})
	h.end(time.Minute)
	h.run()
	require.Equal(t, 2, h.count(activities.Interrupt))
	require.Equal(t, 1, h.count(activities.ReviveSandbox))
}
