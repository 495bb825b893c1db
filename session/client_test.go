package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// stubTemporal answers every update with the next of its errors, the last for
// ever.
type stubTemporal struct {
	client.Client
	errs    []error
	updates int
	closed  bool
}

func (s *stubTemporal) UpdateWorkflow(ctx context.Context, _ client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.updates++
	return nil, s.errs[min(s.updates, len(s.errs))-1]
}

func (s *stubTemporal) DescribeWorkflow(context.Context, string, string) (*client.WorkflowExecutionDescription, error) {
	d := &client.WorkflowExecutionDescription{}
	d.Status = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if s.closed {
		d.Status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	}
	return d, nil
}

func (s *stubTemporal) QueryWorkflowWithOptions(context.Context, *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error) {
	return nil, serviceerror.NewNotFound("no workflow")
}

func failure(kind string) error { return temporal.NewApplicationError("x", kind) }

// What a caller may do next must be true for each code.
func TestCodesOfTheClient(t *testing.T) {
	busy := serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT, "busy")
	final := session.EncodeError(session.Errorf(session.NotFound, "no such file"))
	for name, row := range map[string]struct {
		errs   []error
		closed bool
		code   session.Code
		again  bool // it was sent more than once
	}{
		"an answer":                  {[]error{final}, false, session.NotFound, false},
		"drains, then answers":       {[]error{failure(session.FailureDraining), failure(session.FailureReattach), final}, false, session.NotFound, true},
		"busy, then answers":         {[]error{busy, final}, false, session.NotFound, true},
		"busy for ever":              {[]error{busy}, false, session.DeadlineExceeded, true},
		"Temporal is away":           {[]error{serviceerror.NewUnavailable("x")}, false, session.DeadlineExceeded, true},
		"Temporal comes back":        {[]error{serviceerror.NewUnavailable("x"), final}, false, session.NotFound, true},
		"forgotten by the server":    {[]error{serviceerror.NewNotFound("no update"), final}, false, session.NotFound, true},
		"no such session":            {[]error{serviceerror.NewNotFound("no workflow")}, true, session.NotFound, false},
		"closed while it was asked":  {[]error{failure("AcceptedUpdateCompletedWorkflow")}, true, session.NotFound, false},
		"a run closed, a new answer": {[]error{failure("AcceptedUpdateCompletedWorkflow"), final}, false, session.NotFound, true},
		"no worker":                  {[]error{serviceerror.NewFailedPrecondition("no poller seen")}, false, session.DeadlineExceeded, false},
		"unknown":                    {[]error{errors.New("secret detail")}, false, session.Internal, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stub := &stubTemporal{errs: row.errs, closed: row.closed}
				c := session.NewClient(session.ClientOptions{Temporal: stub})
				call := session.Call{Owner: "alice", SessionID: session.MakeSessionID(nil, "alice", "c"), CallID: "c_1"}
				began := time.Now()
				_, meta, err := session.Do(t.Context(), c, session.ReadFile, call, session.ReadFileIn{Path: "f"})
				require.Equal(t, row.code, session.CodeOf(err), "%v", err)
				require.Equal(t, "c_1", meta.CallID)
				require.NotContains(t, err.Error(), "secret")
				require.Equal(t, row.again, stub.updates > 1)
				require.LessOrEqual(t, time.Since(began), 55*time.Second)
			})
		})
	}
}

func TestCancelledCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := session.NewClient(session.ClientOptions{Temporal: &stubTemporal{errs: []error{nil}}})
	call := session.Call{Owner: "alice", SessionID: session.MakeSessionID(nil, "alice", "c")}
	_, meta, err := session.Do(ctx, c, session.ReadFile, call, session.ReadFileIn{Path: "f"})
	require.Equal(t, session.Cancelled, session.CodeOf(err), "%v", err)
	require.NoError(t, session.CheckCallID(meta.CallID), "an ID to ask with again")
}

// A server that ends breaks its calls off with a cause of its own: that is not
// the caller's doing, who may ask again.
func TestCallBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	c := session.NewClient(session.ClientOptions{Temporal: &stubTemporal{errs: []error{serviceerror.NewUnavailable("")}}})
	cancel(errors.New("the server is shutting down"))
	_, _, err := session.Do(ctx, c, session.RunCommand, session.Call{SessionID: session.MakeSessionID(nil, "o", "c")}, session.RunCommandIn{Command: "true"})
	require.Equal(t, session.DeadlineExceeded, session.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "shutting down")
}

// busyTemporal answers no query in time, and takes updates.
type busyTemporal struct {
	client.Client
	refusal          error // of queries, at once
	queries, updates int
	answer           session.Description
}

func (b *busyTemporal) QueryWorkflowWithOptions(ctx context.Context, _ *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error) {
	b.queries++
	if b.refusal != nil {
		return nil, b.refusal
	}
	<-ctx.Done()
	return nil, serviceerror.NewDeadlineExceeded("context deadline exceeded")
}

func (b *busyTemporal) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	b.updates++
	if o.UpdateName != session.QueryStatus {
		return nil, session.EncodeError(session.Ended(""))
	}
	return updateHandle{answer: b.answer}, nil
}

type updateHandle struct {
	client.WorkflowUpdateHandle
	answer session.Description
}

func (updateHandle) RunID() string { return "run" }

func (h updateHandle) Get(_ context.Context, out any) error {
	b, err := json.Marshal(session.Response[session.Description]{Out: h.answer})
	if err != nil {
		return err
	}
	return json.Unmarshal(b, out)
}

// Where calls leave a query no turn, an update asks.
func TestStateOfABusySession(t *testing.T) {
	for name, found := range map[string]bool{"own": true, "another's": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				busy := &busyTemporal{answer: session.Description{Found: found, Session: session.GetSessionOut{Status: session.StatusEnded, Reason: "why"}}}
				call := session.Call{Owner: "alice", SessionID: session.MakeSessionID(nil, "alice", "c")}
				began := time.Now()
				out, _, err := session.Do(t.Context(), session.NewClient(session.ClientOptions{Temporal: busy}), session.GetSession, call, session.GetSessionIn{})
				if found {
					require.NoError(t, err)
					require.Equal(t, "why", out.Reason)
				} else {
					require.Equal(t, session.NotFound, session.CodeOf(err), "%v", err)
				}
				require.Equal(t, []int{1, 2}, []int{busy.queries, busy.updates})
				require.LessOrEqual(t, time.Since(began), 2*time.Second)
			})
		})
	}
}

// Where no worker was seen lately a query is refused at once, and an update waits
// for one.
func TestStateWhileTheWorkerStarts(t *testing.T) {
	busy := &busyTemporal{
		refusal: serviceerror.NewFailedPrecondition("no poller seen for task queue recently, worker may be down"),
		answer:  session.Description{Found: true, Session: session.GetSessionOut{Status: session.StatusEnded, Reason: "why"}},
	}
	call := session.Call{Owner: "alice", SessionID: session.MakeSessionID(nil, "alice", "c")}
	out, _, err := session.Do(t.Context(), session.NewClient(session.ClientOptions{Temporal: busy}), session.GetSession, call, session.GetSessionIn{})
	require.NoError(t, err)
	require.Equal(t, "why", out.Reason)
}

// A session is told how long its answer is of use.
func TestCallsSayWhatTimeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &leftTemporal{}
		call := session.Call{Owner: "alice", SessionID: session.MakeSessionID(nil, "alice", "c")}
		for within, want := range map[time.Duration]int64{time.Minute: 52000, 20 * time.Second: 17000, time.Second: 1} {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			_, _, err := session.Do(ctx, session.NewClient(session.ClientOptions{Temporal: seen}), session.RunCommand, call, session.RunCommandIn{Command: "true"})
			cancel()
			require.Error(t, err)
			require.Equal(t, want, seen.left, within)
		}
	})
}

type leftTemporal struct {
	client.Client
	left int64
}

func (l *leftTemporal) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	req, ok := o.Args[0].(session.Request[any])
	if ok {
		l.left = req.LeftMS
	}
	return nil, session.EncodeError(session.Errorf(session.InvalidArgument, "no"))
}

// Nothing is sent that cannot be right.
func TestRefusedByTheClient(t *testing.T) {
	c := session.NewClient(session.ClientOptions{Temporal: nil})
	for name, row := range map[string]struct {
		call session.Call
		in   session.ReadFileIn
		code session.Code
	}{
		"arguments":  {session.Call{}, session.ReadFileIn{}, session.InvalidArgument},
		"call ID":    {session.Call{CallID: "a b"}, session.ReadFileIn{Path: "f"}, session.InvalidArgument},
		"session ID": {session.Call{SessionID: "../x"}, session.ReadFileIn{Path: "f"}, session.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := session.Do(t.Context(), c, session.ReadFile, row.call, row.in)
			require.Equal(t, row.code, session.CodeOf(err))
		})
	}
}
