package tools

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// tracerName is the instrumentation scope of our spans.
const tracerName = "github.com/mcp-sandbox/mcp-sandbox/tools"

// spans makes a SERVER span of each tool call, by OpenTelemetry's MCP
// conventions. Its parent is the context in `_meta`, without it the one in the
// HTTP headers; a malformed context makes a new root and fails no call.
func spans(tracer trace.Tracer) server.ToolHandlerMiddleware {
	return func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			ctx, span := tracer.Start(parent(ctx, req), "tools/call "+req.Params.Name,
				trace.WithSpanKind(trace.SpanKindServer),
				trace.WithAttributes(
					attribute.String("mcp.method.name", "tools/call"),
					attribute.String("gen_ai.tool.name", req.Params.Name),
					attribute.String("gen_ai.operation.name", "execute_tool"),
				))
			defer span.End()
			res, err := next(ctx, req)
			if err != nil || res != nil && res.IsError {
				span.SetAttributes(attribute.String("error.type", "tool_error"))
				span.SetStatus(codes.Error, "")
			}
			return res, err
		}
	}
}

// parent gives a context with the caller's span, if it names one.
func parent(ctx context.Context, req mcp.CallToolRequest) context.Context {
	propagator := propagation.TraceContext{}
	if req.Params.Meta != nil {
		carrier := propagation.MapCarrier{}
		for _, key := range propagator.Fields() {
			if v, ok := req.Params.Meta.AdditionalFields[key].(string); ok {
				carrier[key] = v
			}
		}
		if c := propagator.Extract(ctx, carrier); trace.SpanContextFromContext(c).IsRemote() {
			return c
		}
	}
	if req.Header != nil {
		return propagator.Extract(ctx, propagation.HeaderCarrier(req.Header))
	}
	return ctx
}
