package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// request is a call on its way to the guest.
type request struct {
	activity string
	summary  string
	wait     time.Duration     // how long the guest may take to answer
	env      map[string]string // the session's, for what starts a process
	far      bool              // takes longer than a near call may
	long     bool              // works for all of wait: that does not count against the call's bound
}

// maxRecoveries is how often one call may find the sandbox gone and have it
// brought back, before it is given up.
const maxRecoveries = 5

// pause lies between two attempts to deliver a call, should they fail at once.
const pause = time.Second

// toGuest carries a call to the session's guest and brings back the answer. It
// is the only way there.
//
// It waits while the sandbox starts or is being changed. When the container is
// gone it has the sandbox recovered and sends the same call ID again: the
// guest's journal knows what became of it. A timeout proves nothing, so the
// same ID goes again within the call's bound; after that the guest is asked to
// refuse the ID for good, and only if it does is the outcome Unavailable.
func toGuest[In, Out any](ctx workflow.Context, r *run, c call, req request, in In) (Out, error) {
	var out Out
	wctx, done := r.breakable(ctx, onDrain)
	defer done()
	left := r.o.CallBound // of the bound; waiting for the sandbox does not count
	if req.long {
		left += req.wait
	}
	for recoveries := 0; ; {
		if err := r.awaitSandbox(wctx); err != nil {
			return out, err
		}
		if left <= 0 || recoveries > maxRecoveries {
			return out, r.giveUp(wctx, c)
		}
		changes := r.changes
		if err := r.pace.wait(wctx, c.bytes+payloadBytes(req.env)); err != nil {
			return out, err
		}
		if r.busy || r.changes != changes {
			continue // not the sandbox any more that was waited for
		}
		sent := workflow.Now(ctx)
		task := activities.Task[In]{
			Ref: r.st.Sandbox.Ref, CallID: c.id, Digest: c.digest, In: in, Env: req.env, MemoryMB: r.in.Start.MemoryMB,
			Progress: c.progress,
		}
		if !c.answerBy.IsZero() {
			task.LeftMS = max(1, c.answerBy.Sub(sent).Milliseconds())
		}
		if recoveries == 0 && left == r.o.CallBound { // the first time
			if done, err := tryNear(wctx, r, req, task, &out); done || err != nil {
				return out, err
			}
		}
		err := workflow.ExecuteActivity(r.host(wctx, deliver(req.summary, req.wait, left)), req.activity, task).Get(wctx, &out)
		spent := workflow.Now(ctx).Sub(sent)
		r.nearSick = r.nearSick && err != nil
		switch {
		case err == nil, temporal.IsCanceledError(err):
			return out, err
		case session.FailureType(err) == session.FailureSandboxGone:
			recoveries++
			r.recover(ctx, changes)
		case proves(err):
			return out, err
		default:
			if err := workflow.Sleep(wctx, pause); err != nil {
				return out, err
			}
			spent += pause
		}
		left -= spent
	}
}

// proves tells whether an activity's error says what happened. A timeout does
// not, nor does an error whose retries ran out.
func proves(err error) bool {
	if _, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		return false
	}
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.NonRetryable()
}

// giveUp ends a call that could not be delivered: Unavailable if the guest
// promised to refuse it for ever, Lost otherwise.
func (r *run) giveUp(ctx workflow.Context, c call) error {
	var res activities.Refusal
	task := activities.Task[activities.None]{Ref: r.st.Sandbox.Ref, CallID: c.id}
	err := workflow.ExecuteActivity(r.host(ctx, quick("refuse")), activities.RefuseCall, task).Get(ctx, &res)
	switch {
	case temporal.IsCanceledError(err):
		return err // nothing is decided: the next run takes the call up
	case err == nil && res.Refused:
		return session.Errorf(session.Unavailable, "the sandbox could not be reached for %s; nothing happened, send the call again with a new call ID", r.o.CallBound)
	}
	return session.Errorf(session.Lost, "the sandbox could not be reached for %s and it is not known whether the call took effect; look at the state before you repeat it", r.o.CallBound)
}

// awaitSandbox waits until the sandbox can take calls.
func (r *run) awaitSandbox(ctx workflow.Context) error {
	err := workflow.Await(ctx, func() bool {
		return r.ending || r.draining || r.st.Failure != nil || r.st.Status == session.StatusLost ||
			(r.st.Status == session.StatusRunning && !r.busy)
	})
	switch {
	case err != nil:
		return err
	case r.ending:
		return session.Ended(r.st.Reason)
	case r.draining:
		return temporal.NewCanceledError()
	case r.st.Failure != nil:
		return session.Errorf(r.st.Failure.Code, "%s", r.st.Failure.Message)
	case r.st.Status == session.StatusLost:
		return session.Errorf(session.Lost, "%s", r.lostMessage())
	default:
		return nil
	}
}
