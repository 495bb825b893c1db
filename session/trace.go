package session

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/workflow"
)

// CauseStart is the cause (WithCause) of what a session does because it was
// started. Other causes are the names of signals.
const CauseStart = "start"

type (
	spanIDKey struct{}
	causeKey  struct{}
)

// WithSpanID asks for the ID of the next span that is started with ctx, so that a
// span which is told of twice is the same span. The tracer provider must know of
// it; package telemetry's does, others make an ID of their own.
func WithSpanID(ctx context.Context, id trace.SpanID) context.Context {
	return context.WithValue(ctx, spanIDKey{}, id)
}

// WantedSpanID gives the ID that WithSpanID asked for.
func WantedSpanID(ctx context.Context) (trace.SpanID, bool) {
	id, ok := ctx.Value(spanIDKey{}).(trace.SpanID)
	return id, ok
}

// WithCause says which message asked for what a workflow does outside of a
// handler: CauseStart or the name of a signal. Its activities then belong to the
// trace of whoever sent that message. Work without a cause, such as looking
// whether a session is idle, is in no trace: a session is no endless span.
func WithCause(ctx workflow.Context, message string) workflow.Context {
	return workflow.WithValue(ctx, causeKey{}, message)
}

// CauseOf gives what WithCause said, or "".
func CauseOf(ctx workflow.Context) string {
	message, _ := ctx.Value(causeKey{}).(string)
	return message
}
