package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// call is one use of an operation, as its handler sees it.
type call struct {
	id     string
	digest string
	bytes  int // of the request
	// answerBy is when its caller needs an answer, the zero time for never.
	answerBy time.Time
	progress bool // its caller wants to be told of any
}

// registerHandlers registers all of a session's updates and its query.
func (r *run) registerHandlers(ctx workflow.Context) error {
	return errors.Join(
		workflow.SetQueryHandler(ctx, session.QueryStatus, r.describe),
		workflow.SetUpdateHandler(ctx, session.QueryStatus, r.describeByUpdate),
		handle(ctx, r, session.StartSession, r.awaitStarted),
		handle(ctx, r, session.GetSession, r.getSession),
		handle(ctx, r, session.RunCommand, r.runCommand),
		handle(ctx, r, session.ReadOutput, r.readOutput),
		handle(ctx, r, session.SendInput, r.sendInput),
		handle(ctx, r, session.StopCommand, r.stopCommand),
		handle(ctx, r, session.ReadFile, r.readFile),
		handle(ctx, r, session.WriteFile, r.writeFile),
		handle(ctx, r, session.EditFile, r.editFile),
		handle(ctx, r, session.CopyIn, r.copyIn),
		handle(ctx, r, session.CopyOut, r.copyOut),
		handle(ctx, r, session.TakeSnapshot, r.snapshot),
		handle(ctx, r, session.RestoreSnapshot, r.restore),
	)
}

// handle registers the update of an operation: the owner's check and the state
// guard before it is accepted, the bookkeeping of calls around it, and the
// digest on the answer, by which the client recognises an ID used twice.
func handle[In, Out any](ctx workflow.Context, r *run, op session.Operation[In, Out],
	h func(workflow.Context, call, In) (Out, error),
) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, op.Name,
		func(ctx workflow.Context, req session.Request[In]) (session.Response[Out], error) {
			c := call{id: workflow.GetCurrentUpdateInfo(ctx).ID, digest: req.Digest, bytes: payloadBytes(req), progress: req.Progress}
			if req.LeftMS > 0 {
				c.answerBy = workflow.Now(ctx).Add(time.Duration(req.LeftMS) * time.Millisecond)
			}
			r.pace.add(ctx, c.bytes)
			r.calls++
			defer func() {
				r.calls--
				r.st.LastActivity = workflow.Now(ctx)
			}()
			if d := r.done(c.id); d != nil && d.Digest != c.digest {
				return session.Response[Out]{Digest: req.Digest}, r.answer(session.ReusedCallID(c.id), req.Digest)
			}
			// For the defaults: session.Client has filled them in, others may not. The
			// rules were the validator's, and those of a later version do not count.
			_ = session.Validate(&req.In) //workflowcheck:ignore defaults by reflection
			out, err := h(ctx, c, req.In)
			if err == nil {
				err = r.pace.wait(ctx, payloadBytes(out))
			}
			return session.Response[Out]{Digest: req.Digest, Out: out}, r.answer(err, req.Digest)
		},
		workflow.UpdateHandlerOptions{
			Validator: func(ctx workflow.Context, req session.Request[In]) error {
				fits := func() bool { return r.pace.fits(ctx, payloadBytes(req)) }
				return r.admit(req.Owner, fits, func() error {
					// A start that is sent again to another run than the first: refused here, it
					// does not stand in the way of the right one.
					if op.Name == session.StartSession.Name && r.st.Started != "" && req.Digest != r.st.Started {
						return session.ReusedCallID(workflow.GetCurrentUpdateInfo(ctx).ID)
					}
					return session.Validate(&req.In) //workflowcheck:ignore a validator is not replayed
				})
			},
		})
}

// admit is the validator of every update. It must be pure: a rejected update
// leaves no trace and may come again.
func (r *run) admit(owner string, fits func() bool, validate func() error) error {
	switch {
	case owner != r.in.Owner:
		return session.EncodeError(session.NoSession(r.in.SessionID))
	case r.ending:
		return session.EncodeError(session.Ended(r.st.Reason))
	case r.draining:
		return temporal.NewApplicationError("the session continues as new", session.FailureDraining)
	case !fits():
		return temporal.NewApplicationError("too much at once", session.FailureDraining)
	}
	if err := validate(); err != nil {
		return session.EncodeError(session.DecodeError(err))
	}
	return nil
}

// answer gives a handler's error its final form. A wait that was broken off is
// the session's end, or asks the client to send the call again to the next run.
func (r *run) answer(err error, digest string) error {
	if err == nil {
		return nil
	}
	if temporal.IsCanceledError(err) {
		if r.ending {
			err = session.Ended(r.st.Reason)
		} else {
			return temporal.NewApplicationError("the session continues as new", session.FailureReattach)
		}
	}
	e := session.DecodeError(err)
	if e.Code == session.Internal && !proves(err) {
		e = session.Wrap(err, session.Lost, "the session's host gave no answer in time, and it is not known whether the call took effect; look at the state before you repeat it")
	}
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Code), temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{digest}, Cause: e.Unwrap(),
	})
}
