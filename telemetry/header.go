package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// carried is what goes in a Temporal header beside the trace context itself.
type carried struct {
	span trace.SpanContext
	call string // the call's ID, "" outside of a call
}

// write puts what is carried into a header; nothing if there is no span.
func (c carried) write(header map[string]*commonpb.Payload) {
	if header == nil || !c.span.IsValid() {
		return
	}
	fields := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), c.span), fields)
	if c.call != "" {
		fields[session.KeyCall] = c.call
	}
	payload, err := converter.GetDefaultDataConverter().ToPayload(map[string]string(fields))
	if err != nil {
		return // a map of strings can always be encoded
	}
	header[session.TraceHeader] = payload
}

// read takes what a header carries; nothing if that cannot be read: a foreign
// trace context must not break a call.
func read(header map[string]*commonpb.Payload) carried {
	payload := header[session.TraceHeader]
	if payload == nil {
		return carried{}
	}
	var fields map[string]string
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &fields); err != nil {
		return carried{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(fields))
	return carried{trace.SpanContextFromContext(ctx), fields[session.KeyCall]}
}
