package tools

import (
	"context"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// success is the result of a call that did what it was asked.
func (h *handler) success(ctx context.Context, a answer) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Result:            mcp.Result{Meta: h.resultMeta(ctx, a.meta)},
		Content:           []mcp.Content{mcp.NewTextContent(a.text)},
		StructuredContent: a.out,
	}
}

// failure is an error result. It has no structured content: clients check that
// against the output schema, and then the model never sees the message.
func (h *handler) failure(ctx context.Context, m session.Meta, e *session.Error) *mcp.CallToolResult {
	meta := h.resultMeta(ctx, m)
	meta.AdditionalFields[session.MetaError] = session.Failure{Code: e.Code, Message: e.Message}
	return &mcp.CallToolResult{
		Result:  mcp.Result{Meta: meta},
		Content: []mcp.Content{mcp.NewTextContent(e.Error())},
		IsError: true,
	}
}

// resultMeta joins the result to history and trace, as far as they are known.
func (h *handler) resultMeta(ctx context.Context, m session.Meta) *mcp.Meta {
	fields := map[string]any{}
	for key, value := range map[string]string{
		session.MetaCallID:     m.CallID,
		session.MetaWorkflowID: m.WorkflowID,
		session.MetaRunID:      m.RunID,
		session.MetaTraceID:    h.opts.TraceID(ctx),
		session.MetaSessionID:  m.SessionID,
	} {
		if value != "" {
			fields[key] = value
		}
	}
	return &mcp.Meta{AdditionalFields: fields}
}

// shown is what the caller sees of err: an *session.Error as it is, the end of
// the context by its cause, and nothing of anything else.
func (h *handler) shown(ctx context.Context, call session.Call, err error) *session.Error {
	if e, ok := errors.AsType[*session.Error](err); ok {
		return e
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return ended(ctx, call, err)
	}
	if id := h.opts.TraceID(ctx); id != "" {
		return session.Wrap(err, session.Internal, "internal error, trace ID %s", id)
	}
	return session.Wrap(err, session.Internal, "internal error, call ID %s", call.CallID)
}

// ended is the error of a call whose context ended under it.
func ended(ctx context.Context, call session.Call, err error) *session.Error {
	cause := context.Cause(ctx)
	if cause == nil {
		cause = err // an end further down
	}
	switch {
	case errors.Is(cause, ErrShuttingDown), !errors.Is(ctx.Err(), context.Canceled):
		// Out of time here, or somewhere below: the call itself may go on.
		return session.Wrap(cause, session.DeadlineExceeded,
			"no answer yet; send the call again with _meta[%q] %q to get it", session.MetaCallID, call.CallID)
	case CancelledByClient(ctx):
		return session.Wrap(cause, session.Cancelled, "the call was cancelled; if it had started a command, that is stopped")
	default:
		return session.Wrap(cause, session.Cancelled, "the connection ended; what the call started goes on under call ID %s", call.CallID)
	}
}

// detail is err with its hidden cause, for the log.
func detail(err error) string {
	if e, ok := errors.AsType[*session.Error](err); ok && e.Unwrap() != nil {
		return err.Error() + ": " + e.Unwrap().Error()
	}
	return err.Error()
}
