package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// call is one use of an operation, as its handler sees it.
type call struct {
	id     string
	digest string
}

// registerHandlers registers all of a session's updates and its query.
func (r *run) registerHandlers(ctx workflow.Context) error {
	return errors.Join(
		workflow.SetQueryHandler(ctx, session.QueryStatus, r.describe),
		handle(ctx, r, session.StartSession, r.awaitStarted),
		handle(ctx, r, session.GetSession, r.getSession),
		handle(ctx, r, session.RunCommand, r.runCommand),
		handle(ctx, r, session.ReadOutput, r.readOutput),
		handle(ctx, r, session.SendInput, r.sendInput),
		handle(ctx, r, session.StopCommand, r.stopCommand),
		handle(ctx, r, session.ReadFile, r.readFile),
		handle(ctx, r, session.WriteFile, r.writeFile),
		handle(ctx, r, session.EditFile, r.editFile),
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
			r.calls++
			defer func() {
				r.calls--
				r.st.LastActivity = workflow.Now(ctx)
			}()
			out, err := h(ctx, call{workflow.GetCurrentUpdateInfo(ctx).ID, req.Digest}, req.In)
			return session.Response[Out]{Digest: req.Digest, Out: out}, r.answer(err, req.Digest)
		},
		workflow.UpdateHandlerOptions{
			Validator: func(_ workflow.Context, req session.Request[In]) error {
				return r.admit(req.Owner, func() error { return session.Validate(&req.In) })
			},
		})
}

// admit is the validator of every update. It must be pure: a rejected update
// leaves no trace and may come again.
func (r *run) admit(owner string, validate func() error) error {
	switch {
	case owner != r.in.Owner:
		return session.EncodeError(session.NoSession(r.in.SessionID))
	case r.ending:
		return session.EncodeError(session.Ended(r.st.Reason))
	case r.draining:
		return temporal.NewApplicationError("the session continues as new", session.FailureDraining)
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
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Code), temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{digest}, Cause: e.Unwrap(),
	})
}
