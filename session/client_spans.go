package session

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracerName is the instrumentation scope of the client's spans.
const tracerName = "github.com/mcp-sandbox/mcp-sandbox/session"

// span starts the span of what is sent to a workflow. The call may be the zero
// one.
func (c *Client) span(ctx context.Context, name, workflowID string, call Call) (context.Context, trace.Span) {
	attrs := []attribute.KeyValue{attribute.String(KeyWorkflow, workflowID)}
	if call.SessionID != "" {
		attrs = append(attrs, attribute.String(KeySession, call.SessionID))
	}
	if call.CallID != "" {
		attrs = append(attrs, attribute.String(KeyCall, call.CallID))
	}
	return c.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
}

// endSpan ends a span with its outcome, and the run that answered if it is known.
func endSpan(span trace.Span, runID string, err error) {
	if runID != "" {
		span.SetAttributes(attribute.String(KeyRun, runID))
	}
	if err == nil {
		span.SetAttributes(attribute.String(KeyOutcome, OutcomeOK))
	} else {
		why := reason(err)
		span.SetAttributes(attribute.String(KeyOutcome, why), attribute.String("error.type", why))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// reason is what kind of error it is, and nothing of its text.
func reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return string(e.Code)
	}
	if t := FailureType(err); t != "" {
		return t
	}
	return fmt.Sprintf("%T", err)
}
