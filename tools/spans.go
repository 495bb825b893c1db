package tools

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// tracerName is the instrumentation scope of our spans.
const tracerName = "github.com/mcp-sandbox/mcp-sandbox/tools"

// spans makes a SERVER span of each tool call, by OpenTelemetry's MCP
// conventions. Its parent is the context in `_meta`, without it the one in the
// HTTP headers; a malformed context makes a new root and fails no call.
func spans(tracer trace.Tracer) server.ToolHandlerMiddleware {
	return func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			ctx, others := parent(ctx, req)
			ctx, span := tracer.Start(ctx, "tools/call "+req.Params.Name,
				trace.WithSpanKind(trace.SpanKindServer), trace.WithLinks(others...),
				trace.WithAttributes(
					attribute.String("mcp.method.name", "tools/call"),
					attribute.String("gen_ai.tool.name", req.Params.Name),
					attribute.String("gen_ai.operation.name", "execute_tool"),
				))
			defer span.End()
			res, err := next(ctx, req)
			out := outcome(res, err)
			span.SetAttributes(attribute.String(session.KeyOutcome, out))
			if out != session.OutcomeOK {
				span.SetAttributes(attribute.String("error.type", errorTypeTool))
				span.SetStatus(codes.Error, "")
			}
			return res, err
		}
	}
}

// parent gives a context with the caller's span, if it names one. When `_meta` and
// the HTTP header name different ones, the header's is linked.
func parent(ctx context.Context, req mcp.CallToolRequest) (context.Context, []trace.Link) {
	fromMeta, fromHeader := spanContext(metaCarrier(req)), spanContext(propagation.HeaderCarrier(req.Header))
	switch {
	case !fromMeta.IsValid() && !fromHeader.IsValid():
		return ctx, nil
	case !fromMeta.IsValid():
		return trace.ContextWithRemoteSpanContext(ctx, fromHeader), nil
	}
	var links []trace.Link
	if fromHeader.IsValid() && !fromHeader.Equal(fromMeta) {
		links = []trace.Link{{SpanContext: fromHeader}}
	}
	return trace.ContextWithRemoteSpanContext(ctx, fromMeta), links
}

// spanContext reads a W3C trace context; the zero one if there is none, or it is
// malformed.
func spanContext(c propagation.TextMapCarrier) trace.SpanContext {
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), c))
}

func metaCarrier(req mcp.CallToolRequest) propagation.MapCarrier {
	carrier := propagation.MapCarrier{}
	if req.Params.Meta == nil {
		return carrier
	}
	for _, key := range (propagation.TraceContext{}).Fields() {
		if v, ok := req.Params.Meta.AdditionalFields[key].(string); ok {
			carrier[key] = v
		}
	}
	return carrier
}

// joinSpan gives the call's span what joins it to the session and to Temporal's
// history, as far as it is known.
func joinSpan(ctx context.Context, sessionID string, m session.Meta) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	for key, value := range map[string]string{
		session.KeySession: sessionID, session.KeyCall: m.CallID, session.KeyWorkflow: m.WorkflowID, session.KeyRun: m.RunID,
	} {
		if value != "" {
			span.SetAttributes(attribute.String(key, value))
		}
	}
}
