package session

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// ClientOptions configure a Client.
type ClientOptions struct {
	// Temporal is the connection; the caller closes it.
	Temporal client.Client
	// Secret makes session IDs unguessable; the same in every server of an
	// installation.
	Secret []byte
	// UpdateSlots is how many calls of one session wait in Temporal at once:
	// 90 with the embedded server, 7 on a cluster with default limits (0 is 7).
	UpdateSlots int
	// SpareSlots is how many more are kept free for calls that do not wait, such
	// as stop_command and read_file; 0 is 3.
	SpareSlots int
	// QueuedCalls is how many further calls of one session wait for a slot
	// before ResourceExhausted; 0 is 1000.
	QueuedCalls int
	// AnswerWithin bounds a call; then DeadlineExceeded. Default: AnswerWithin.
	AnswerWithin time.Duration
	// MaxSessions is how many live sessions an owner may have; further starts
	// are ResourceExhausted. 0 is no limit.
	MaxSessions int
	Logger      *slog.Logger
	// Tracer makes the spans of what is sent to Temporal. Default: the global
	// provider's.
	Tracer trace.Tracer
}

// AnswerWithin is how long a call may take, below the 60 s after which many MCP
// clients give up.
const AnswerWithin = 55 * time.Second

// answerMargin is what an answer needs on its way back from a wait.
const answerMargin = 3 * time.Second

// Client carries calls to session workflows. Safe for concurrent use.
type Client struct {
	temporal     client.Client
	secret       []byte
	answerWithin time.Duration
	slots        *slots
	quota        quota
	log          *slog.Logger
	tracer       trace.Tracer
}

var _ Caller = (*Client)(nil)

// NewClient makes a Client.
func NewClient(o ClientOptions) *Client {
	if o.UpdateSlots == 0 {
		o.UpdateSlots = 7
	}
	if o.SpareSlots == 0 {
		o.SpareSlots = 3
	}
	if o.QueuedCalls == 0 {
		o.QueuedCalls = 1000
	}
	if o.AnswerWithin == 0 {
		o.AnswerWithin = AnswerWithin
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Tracer == nil {
		o.Tracer = otel.Tracer(tracerName)
	}
	c := &Client{
		temporal:     o.Temporal,
		secret:       o.Secret,
		answerWithin: o.AnswerWithin,
		slots:        newSlots(o.UpdateSlots, o.SpareSlots, o.QueuedCalls),
		log:          o.Logger,
		tracer:       o.Tracer,
	}
	c.quota = quota{max: o.MaxSessions, listed: c.liveSessions, look: c.lookAt}
	return c
}

// Invoke implements Caller.
func (c *Client) Invoke(ctx context.Context, operation string, call Call, in, out any) (Meta, error) {
	ctx, cancel := context.WithTimeout(ctx, c.answerWithin)
	defer cancel()
	meta, err := c.route(ctx, operation, call, in, out)
	meta.CallID = call.CallID
	if err == nil {
		return meta, nil
	}
	e := c.explain(ctx, err)
	if e.Code == Internal {
		c.log.ErrorContext(ctx, "call ended with an internal error", "operation", operation,
			KeySession, call.SessionID, KeyCall, call.CallID, "error", err)
	}
	return meta, e
}

// route sends an operation where it belongs: to the session's or the snapshot's
// workflow, or to Temporal itself.
func (c *Client) route(ctx context.Context, operation string, call Call, in, out any) (Meta, error) {
	switch operation {
	case StartSession.Name:
		return c.startSession(ctx, call, *in.(*StartSessionIn), out.(*StartSessionOut))
	case ListSessions.Name:
		return Meta{}, c.listSessions(ctx, call.Owner, *in.(*ListSessionsIn), out.(*ListSessionsOut))
	case GetSession.Name:
		return c.getSession(ctx, call, out.(*GetSessionOut))
	case EndSession.Name:
		return c.endSession(ctx, call, out.(*EndSessionOut))
	case ListSnapshots.Name:
		return Meta{}, c.listSnapshots(ctx, call.Owner, *in.(*ListSnapshotsIn), out.(*ListSnapshotsOut))
	case DeleteSnapshot.Name:
		return c.deleteSnapshot(ctx, call, *in.(*DeleteSnapshotIn), out)
	default:
		if err := CheckSessionID(call.SessionID); err != nil {
			return Meta{}, err
		}
		return c.update(ctx, target{WorkflowIDPrefix + call.SessionID, NoSession(call.SessionID)}, operation, call, in, out)
	}
}

// Interrupt stops the command of a call whose caller gave it up. It returns
// when the request is recorded, not when the command has ended.
func (c *Client) Interrupt(ctx context.Context, call Call) error {
	err := c.signal(ctx, call, SignalInterrupt, Interrupt{Owner: call.Owner, CallID: call.CallID})
	switch {
	case closed(err):
		return NoSession(call.SessionID)
	case err != nil:
		return c.explain(ctx, err)
	}
	return nil
}

// Look has a session look whether its sandbox still runs. It is for the worker of
// the session's host; a session that has ended is no error.
func (c *Client) Look(ctx context.Context, sessionID string, incarnation int) error {
	err := c.signal(ctx, Call{SessionID: sessionID}, SignalLook, Look{Incarnation: incarnation})
	if err == nil || closed(err) {
		return nil
	}
	return c.explain(ctx, err)
}

// signal sends a signal to a session's workflow.
func (c *Client) signal(ctx context.Context, call Call, name string, arg any) error {
	workflowID := WorkflowIDPrefix + call.SessionID
	ctx, span := c.span(ctx, "SignalWorkflow:"+name, workflowID, call)
	err := c.temporal.SignalWorkflow(ctx, workflowID, "", name, arg)
	endSpan(span, "", err)
	return err
}

// explain turns any error into the one the caller sees.
func (c *Client) explain(ctx context.Context, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	var (
		canceled    *temporal.CanceledError
		unavailable *serviceerror.Unavailable
		notReady    *serviceerror.WorkflowNotReady
	)
	switch {
	case errors.Is(ctx.Err(), context.Canceled) && context.Cause(ctx) != context.Canceled: //nolint:errorlint // the plain one alone is a caller's
		return Wrap(err, DeadlineExceeded, "the call was broken off here (%s), what was started goes on: send the same call again with the same call ID in _meta[%q]", context.Cause(ctx), MetaCallID)
	case errors.Is(ctx.Err(), context.Canceled):
		return Wrap(err, Cancelled, "the caller cancelled; what was started goes on, send the same call ID to learn more")
	case late(err), ctx.Err() != nil:
		return Wrap(err, DeadlineExceeded, "no answer yet; it may still come: send the same call again with the same call ID in _meta[%q]", MetaCallID)
	case errors.As(err, &canceled):
		return Wrap(err, FailedPrecondition, "the session has ended; use start_session to make one")
	case errors.As(err, &notReady):
		return Wrap(err, DeadlineExceeded, "the session's workflow cannot answer now; send the same call again with the same call ID in _meta[%q]", MetaCallID)
	case errors.As(err, &unavailable):
		return Wrap(err, DeadlineExceeded, "Temporal cannot be reached now; send the same call again with the same call ID in _meta[%q]", MetaCallID)
	default:
		return DecodeError(err)
	}
}

func isDeadline(err error) bool {
	var deadline *serviceerror.DeadlineExceeded
	return errors.As(err, &deadline)
}

// closed tells whether an error says that the workflow does not exist or has
// closed.
func closed(err error) bool {
	var notFound *serviceerror.NotFound
	return errors.As(err, &notFound)
}

// describe asks a session's workflow for its state, also after its end. A query
// is answered between workflow tasks only; where calls follow each other without
// a pause an update asks, which has its turn among them.
func (c *Client) describe(ctx context.Context, call Call) (d Description, runID string, err error) {
	workflowID := WorkflowIDPrefix + call.SessionID
	asker := Asker{Owner: call.Owner}
	err = c.query(ctx, workflowID, asker, &d, queryAttempts[:1])
	if late(err) && c.queryByUpdate(ctx, workflowID, asker, &d) == nil {
		err = nil
	}
	if late(err) {
		err = c.query(ctx, workflowID, asker, &d, queryAttempts[1:])
	}
	switch {
	case closed(err):
		return d, "", NoSession(call.SessionID)
	case err != nil:
		return d, "", err
	case !d.Found:
		return d, "", NoSession(call.SessionID)
	}
	return d, d.Session.RunID, nil
}

// queryAttempts is how long each attempt of a query may take. A query that
// meets the moment in which a run continues as new may get no answer; asked
// again it does. The last outlasts the workflow task of a killed worker.
var queryAttempts = []time.Duration{2 * time.Second, 3 * time.Second, 10 * time.Second}

// updateAttempt is how long the update may take that stands in for a query.
const updateAttempt = 10 * time.Second

// query asks a workflow for its status on behalf of an owner, by that many
// attempts.
func (c *Client) query(ctx context.Context, workflowID string, asker Asker, out any, attempts []time.Duration) (err error) {
	ctx, span := c.span(ctx, "QueryWorkflow:"+QueryStatus, workflowID, Call{})
	defer func() { endSpan(span, "", err) }()
	for _, limit := range attempts {
		limited, cancel := context.WithTimeout(ctx, limit)
		var resp *client.QueryWorkflowWithOptionsResponse
		resp, err = c.temporal.QueryWorkflowWithOptions(limited, &client.QueryWorkflowWithOptionsRequest{
			WorkflowID: workflowID, QueryType: QueryStatus, Args: []any{asker},
			QueryRejectCondition: enumspb.QUERY_REJECT_CONDITION_NONE,
		})
		if err != nil && limited.Err() != nil {
			err = errors.Join(err, limited.Err())
		}
		cancel()
		if err == nil && resp.QueryRejected != nil {
			return Errorf(FailedPrecondition, "the workflow is %s and answers nothing: unpause it in Temporal", resp.QueryRejected.GetStatus())
		}
		if err == nil {
			return resp.QueryResult.Get(out)
		}
		if !late(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// queryByUpdate asks for the same by an update.
func (c *Client) queryByUpdate(ctx context.Context, workflowID string, asker Asker, out any) (err error) {
	meta := Meta{CallID: NewCallID(), WorkflowID: workflowID}
	ctx, span := c.span(ctx, "UpdateWorkflow:"+QueryStatus, workflowID, Call{CallID: meta.CallID})
	defer func() { endSpan(span, meta.RunID, err) }()
	ctx, cancel := context.WithTimeout(ctx, updateAttempt)
	defer cancel()
	_, err = c.tryUpdate(ctx, QueryStatus, Request[any]{Owner: asker.Owner, In: asker}, out, &meta)
	return err
}

// late tells whether an error says that there was no answer in time. A query is
// refused at once where no worker was seen lately, as after a restart of all.
func late(err error) bool {
	var timeout *client.WorkflowUpdateServiceTimeoutOrCanceledError
	var noWorker *serviceerror.FailedPrecondition
	return errors.Is(err, context.DeadlineExceeded) || isDeadline(err) || errors.As(err, &timeout) || errors.As(err, &noWorker)
}
