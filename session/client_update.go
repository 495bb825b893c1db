package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// target is the workflow an update goes to.
type target struct {
	workflowID string
	// unknown is the error when there is none, or it is someone else's.
	unknown *Error
}

// Back-off between two attempts to deliver one update.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = time.Second
)

// update performs an operation as an update, under the call's ID, until an
// answer comes or ctx ends. The workflow may ask for the same update again
// (FailureDraining, FailureReattach) when it continues as new; a server that
// restarts forgets updates it had not recorded. Sending it again is safe: the
// call ID takes effect once.
//
// It has one span over all attempts, so that the handlers of several runs that one
// call went through are in one place of its trace.
func (c *Client) update(ctx context.Context, to target, operation string, call Call, in, out any) (meta Meta, err error) {
	meta = Meta{CallID: call.CallID, SessionID: call.SessionID, WorkflowID: to.workflowID}
	ctx, span := c.span(ctx, "UpdateWorkflow:"+operation, to.workflowID, call)
	span.SetAttributes(attribute.String(KeyUpdate, call.CallID))
	defer func() { endSpan(span, meta.RunID, err) }()
	digest, err := Digest(operation, in)
	if err != nil {
		return meta, err
	}
	release, err := c.slots.acquire(ctx, to.workflowID, waits(in))
	if err != nil {
		return meta, err
	}
	defer release()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		var again bool
		req := Request[any]{Owner: call.Owner, Digest: digest, In: in, LeftMS: left(ctx), Progress: call.Progress}
		again, err = c.tryUpdate(ctx, operation, req, out, &meta)
		if err == nil {
			return meta, nil
		}
		if cutOff(err) {
			ended, eerr := c.ended(ctx, to.workflowID)
			if ended {
				return meta, c.afterEnd(ctx, to, call)
			}
			again, err = true, errors.Join(err, eerr)
		}
		if !again {
			if e := DecodeError(err); e.Code == NotFound && e.Message == to.unknown.Message {
				meta.RunID = "" // it would tell that there is one, of another owner
			}
			return meta, err
		}
		span.AddEvent("sent again", trace.WithAttributes(attribute.String("reason", reason(err))))
		select {
		case <-ctx.Done():
			return meta, err
		case <-time.After(wait):
		}
	}
}

// left is how long a call may still wait in its session, in milliseconds, at
// least 1; 0 without a deadline.
func left(ctx context.Context) int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(1, (time.Until(deadline) - answerMargin).Milliseconds())
}

// tryUpdate sends the update once. again tells whether the error is one that
// another attempt may overcome.
func (c *Client) tryUpdate(ctx context.Context, operation string, req Request[any], out any, meta *Meta) (again bool, err error) {
	handle, err := c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		UpdateID: meta.CallID, WorkflowID: meta.WorkflowID, UpdateName: operation, Args: []any{req},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return passing(err), err
	}
	meta.RunID = handle.RunID()
	var resp Response[json.RawMessage]
	if err := handle.Get(ctx, &resp); err != nil {
		if temporal.IsApplicationError(err) && failureDigest(err) != "" && failureDigest(err) != req.Digest {
			return false, ReusedCallID(meta.CallID)
		}
		return passing(err), err
	}
	if resp.Digest != req.Digest {
		return false, ReusedCallID(meta.CallID)
	}
	if err := json.Unmarshal(resp.Out, out); err != nil {
		return false, Wrap(err, Internal, "unreadable result")
	}
	return false, nil
}

// cutOff tells whether an update got no answer of its own because its run is
// over, or was not found: a later run may answer it, or the workflow has ended.
// A run that has closed repeats such a failure for ever.
func cutOff(err error) bool {
	switch FailureType(err) {
	case FailureReattach, failureClosed:
		return true
	default:
		return closed(err)
	}
}

// failureClosed is Temporal's type for an update that was at work when its run
// was closed, as by a termination.
const failureClosed = "AcceptedUpdateCompletedWorkflow"

// ended tells whether the newest run of a workflow has closed, or there is none.
func (c *Client) ended(ctx context.Context, workflowID string) (bool, error) {
	d, err := c.temporal.DescribeWorkflow(ctx, workflowID, "")
	switch {
	case closed(err):
		return true, nil
	case err != nil:
		return false, err
	}
	return !runs(d.Status), nil
}

// runs tells whether a workflow of this status goes on.
func runs(status enumspb.WorkflowExecutionStatus) bool {
	switch status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW,
		enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED:
		return true
	default:
		return false
	}
}

// waits tells whether a call may wait in the session for long: such calls leave
// room for those that end them or read.
func waits(in any) bool {
	switch in := in.(type) {
	case *RunCommandIn:
		return !in.Background()
	case *ReadOutputIn:
		return in.WaitSeconds > 0
	case StartSessionIn, *StartSessionIn, *SnapshotIn, *RestoreSnapshotIn, *DeleteSnapshotIn, *CopyInIn, *CopyOutIn:
		return true
	default:
		return false
	}
}

// passing tells whether a further attempt may succeed.
func passing(err error) bool {
	switch FailureType(err) {
	case FailureDraining:
		return true
	case "":
	default:
		return false
	}
	var (
		unavailable *serviceerror.Unavailable
		exhausted   *serviceerror.ResourceExhausted
		notReady    *serviceerror.WorkflowNotReady
		aborted     *serviceerror.Aborted
	)
	return errors.As(err, &unavailable) || errors.As(err, &exhausted) || errors.As(err, &notReady) || errors.As(err, &aborted)
}

// afterEnd explains why a workflow took no update: it has closed, or there is
// none, or it is not the caller's.
func (c *Client) afterEnd(ctx context.Context, to target, call Call) error {
	if call.SessionID == "" {
		return to.unknown
	}
	d, _, err := c.describe(ctx, call)
	if err != nil {
		return err
	}
	if d.Session.Status != StatusEnded {
		return Ended(reasonTerminated)
	}
	return Ended(d.Session.Reason)
}

// reasonTerminated is the reason of a session that could not say one itself.
const reasonTerminated = "its workflow was terminated"

// Ended is the error of a call on a session that has ended.
func Ended(reason string) *Error {
	if reason == "" {
		reason = "end_session was called"
	}
	return Errorf(FailedPrecondition, "the session has ended (%s); use start_session to make a new one", reason)
}

// ReusedCallID is the error for a call ID that was used for something else.
func ReusedCallID(callID string) *Error {
	return Errorf(InvalidArgument, "the call ID %q was used before with another operation or other arguments; send a new call without it", callID)
}

// failureDigest gives the digest that a failed update carries in its details.
func failureDigest(err error) string {
	var app *temporal.ApplicationError
	var digest string
	if errors.As(err, &app) && app.HasDetails() && app.Details(&digest) == nil {
		return digest
	}
	return ""
}
