package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

const owner = "alice"

var (
	sessionID  = session.MakeSessionID([]byte("secret"), owner, "c_start")
	snapshotID = session.MakeSnapshotID(sessionID, "c_snap")
)

// harness runs a session's workflow with activities that a test decides on, and
// skips the time in which nothing happens.
type harness struct {
	*testsuite.TestWorkflowEnvironment
	t     *testing.T
	input session.WorkflowInput
	mu    sync.Mutex
	// performed names the activities in the order they ended, or were about to.
	performed []string
	began     time.Time
}

func newHarness(t *testing.T, o workflows.Options) *harness {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	h := &harness{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t}
	h.SetTestTimeout(20 * time.Second)
	if o.NearWait == 0 {
		o.NearWait = -1 // near_test.go turns it on
	}
	workflows.Register(h, o)
	host := activities.NewHost(nil, nil)
	host.Register(h)
	activities.NewNear(host, "h1").Register(h)
	activities.NewPlacement("", nil).Register(h)
	in := session.StartSessionIn{Name: "test", Env: map[string]string{"A": "B"}}
	require.NoError(t, session.Validate(&in))
	h.input = session.WorkflowInput{SessionID: sessionID, Owner: owner, CallID: "c_start", Start: in}
	h.began = h.Now()
	return h
}

// on says what an activity answers, for the first time if asked for more than
// once; add After, Once, Times as for a mock. What is not said goes well.
func on[In, Out any](h *harness, name string, f func(In) (Out, error)) *testsuite.MockCallWrapper {
	return h.OnActivity(name, mock.Anything, mock.Anything).Return(func(_ context.Context, in In) (Out, error) {
		h.note(name)
		return f(in)
	})
}

func (h *harness) note(activity string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.performed = append(h.performed, activity)
}

func gives[In, Out any](out Out, err error) func(In) (Out, error) {
	return func(In) (Out, error) { return out, err }
}

// defaults are the answers of activities that go well.
func (h *harness) defaults() {
	on(h, activities.PlaceSession, gives[activities.None](activities.Place{HostID: "h1", Queue: "q1"}, nil))
	on(h, activities.CreateSandbox, func(s activities.SandboxSpec) (activities.Sandbox, error) { return sandbox(s.Incarnation), nil })
	on(h, activities.ReviveSandbox, func(r activities.SandboxRef) (activities.Sandbox, error) { return sandbox(r.Incarnation), nil })
	on(h, activities.DescribeUsage, gives[activities.SandboxRef](activities.UsageReport{Usage: session.Usage{PIDs: 2}}, nil))
	on(h, activities.RunCommand, func(c activities.Task[session.RunCommandIn]) (session.RunCommandOut, error) {
		zero := 0
		return session.RunCommandOut{CommandID: c.CallID, Status: session.CommandExited, ExitCode: &zero}, nil
	})
	on(h, activities.ReadFile, gives[activities.Task[session.ReadFileIn]](session.ReadFileOut{Content: "x"}, nil))
	on(h, activities.RefuseCall, gives[activities.Task[activities.None]](activities.Refusal{Refused: true}, nil))
	on(h, activities.Interrupt, gives[activities.Task[activities.None]](activities.None{}, nil))
	on(h, activities.DescribeSnapshot, gives[activities.SnapshotQuery](session.SnapshotRecord{
		Found: true, HostID: "h1", HostQueue: "q1", Image: "base",
	}, nil))
	on(h, activities.TakeSnapshot, gives[activities.SnapshotSpec](activities.SnapshotImage{SizeBytes: 7, Excluded: []string{"/tmp"}}, nil))
	on(h, activities.CheckSnapshot, gives[string](activities.SnapshotImage{}, nil))
	h.OnActivity(activities.RemoveSession, mock.Anything, mock.Anything).Return(func(context.Context, string) error {
		h.note(activities.RemoveSession)
		return nil
	})
	h.OnWorkflow(session.SnapshotWorkflowType, mock.Anything, mock.Anything).Return(nil)
}

func sandbox(incarnation int) activities.Sandbox {
	return activities.Sandbox{
		Ref:   activities.SandboxRef{SessionID: sessionID, Incarnation: incarnation, ContainerID: fmt.Sprintf("container%d", incarnation)},
		Image: "default", WorkingDir: "/workspace",
	}
}

// run runs the workflow until it closes. Whatever happened, the sandbox is
// removed last, unless the session continues as new.
func (h *harness) run() {
	h.t.Helper()
	h.defaults()
	h.ExecuteWorkflow(session.WorkflowType, h.input)
	require.True(h.t, h.IsWorkflowCompleted())
}

// requireEnded requires that the session closed with this reason and removed its
// sandbox last.
func (h *harness) requireEnded(reason string) {
	h.t.Helper()
	require.NoError(h.t, h.GetWorkflowError())
	d := h.describe(owner)
	require.Equal(h.t, session.StatusEnded, d.Session.Status)
	require.Contains(h.t, d.Session.Reason, reason)
	if h.count(activities.PlaceSession)+h.count(activities.DescribeSnapshot) > 0 {
		require.Equal(h.t, activities.RemoveSession, h.performed[len(h.performed)-1])
	}
}

// next gives a harness for the run that the workflow continued as.
func (h *harness) next() *harness {
	h.t.Helper()
	var can *workflow.ContinueAsNewError
	require.ErrorAs(h.t, h.GetWorkflowError(), &can)
	next := newHarness(h.t, workflows.Options{})
	require.NoError(h.t, converter.GetDefaultDataConverter().FromPayloads(can.Input, &next.input))
	next.SetStartTime(h.Now())
	next.began = h.Now()
	return next
}

func (h *harness) describe(asker string) session.Description {
	h.t.Helper()
	v, err := h.QueryWorkflow(session.QueryStatus, session.Asker{Owner: asker})
	require.NoError(h.t, err)
	var d session.Description
	require.NoError(h.t, v.Get(&d))
	return d
}

func (h *harness) count(activity string) (n int) {
	for _, name := range h.performed {
		if name == activity {
			n++
		}
	}
	return n
}

func (h *harness) at(after time.Duration, f func()) { h.RegisterDelayedCallback(f, after) }

func (h *harness) end(after time.Duration) {
	h.at(after, func() { h.SignalWorkflow(session.SignalEnd, session.End{Owner: owner, Reason: "a test ends it"}) })
}

// answer is what became of a call.
type answer[Out any] struct {
	rejected error
	accepted bool
	done     bool
	after    time.Duration // since the workflow began
	out      Out
	digest   string
	err      error
}

func (a *answer[Out]) code() session.Code {
	return session.CodeOf(session.DecodeError(errors.Join(a.rejected, a.err)))
}

// call sends a call after some time.
func call[In, Out any](h *harness, after time.Duration, op session.Operation[In, Out], id string, in In) *answer[Out] {
	return callAs(h, after, op, id, owner, in)
}

func callAs[In, Out any](h *harness, after time.Duration, op session.Operation[In, Out], id, owner string, in In) *answer[Out] {
	return callWith(h, after, op, id, session.Request[In]{Owner: owner, In: in})
}

// callWithin is a call whose caller waits that long.
func callWithin[In, Out any](h *harness, after, left time.Duration, op session.Operation[In, Out], id string, in In) *answer[Out] {
	return callWith(h, after, op, id, session.Request[In]{Owner: owner, In: in, LeftMS: left.Milliseconds()})
}

func callWith[In, Out any](h *harness, after time.Duration, op session.Operation[In, Out], id string, req session.Request[In]) *answer[Out] {
	a := &answer[Out]{}
	_ = session.Validate(&req.In)
	var err error
	req.Digest, err = session.Digest(op.Name, req.In)
	require.NoError(h.t, err)
	h.at(after, func() {
		h.UpdateWorkflow(op.Name, id, &testsuite.TestUpdateCallback{
			OnAccept: func() { a.accepted = true },
			OnReject: func(err error) { a.rejected = err },
			OnComplete: func(v any, err error) {
				a.done, a.err, a.after = true, err, h.Now().Sub(h.began)
				b, merr := json.Marshal(v)
				require.NoError(h.t, merr)
				var resp session.Response[Out]
				if err == nil {
					require.NoError(h.t, json.Unmarshal(b, &resp))
				}
				a.out, a.digest = resp.Out, resp.Digest
			},
		}, req)
	})
	return a
}

// errGone is the word of a host that the sandbox's container does not run.
var errGone = temporal.NewNonRetryableApplicationError("the container does not run any more", session.FailureSandboxGone, nil)

// timeout is what the server makes of an activity that nobody finished in time.
func timeout() error { return temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, nil) }
