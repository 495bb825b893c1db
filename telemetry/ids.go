package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// IDGenerator makes random IDs, but for spans whose ID was asked for
// (session.WithSpanID). Start's tracer provider has it.
type IDGenerator struct{}

var _ sdktrace.IDGenerator = IDGenerator{}

// NewIDs implements sdktrace.IDGenerator, for the first span of a trace.
func (g IDGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	var id trace.TraceID
	for !id.IsValid() {
		_, _ = rand.Read(id[:]) // it never fails
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (IDGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if id, ok := session.WantedSpanID(ctx); ok && id.IsValid() && id != trace.SpanContextFromContext(ctx).SpanID() {
		return id // unless that span is the parent: the wish was for one
	}
	var id trace.SpanID
	for !id.IsValid() {
		_, _ = rand.Read(id[:])
	}
	return id
}

// handlerSpanID is the ID of the span of an update's handler: the same in each
// replay, another in each run.
func handlerSpanID(runID, updateID string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte("handler\x00" + runID + "\x00" + updateID))
	copy(id[:], sum[:])
	return id
}
