package tools

import (
	"context"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Names of the histograms, in seconds. The first is of OpenTelemetry's MCP
// conventions and tells errors apart no further than they do; ours has the code.
const (
	metricOperation = "mcp.server.operation.duration"
	metricCall      = "mcp_sandbox.call.duration"
)

// durationBuckets are those that the MCP conventions recommend, in seconds.
var durationBuckets = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}

// errorTypeTool is the conventions' error.type of a result that is an error.
const errorTypeTool = "tool_error"

// durations counts and times tool calls, by tool and outcome: session.OutcomeOK
// or the error's code. Both are few.
func durations(meter metric.Meter) server.ToolHandlerMiddleware {
	operation := histogram(meter, metricOperation, "How long MCP requests took.")
	call := histogram(meter, metricCall, "How long tool calls took, by tool and outcome.")
	return func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			began := time.Now()
			res, err := next(ctx, req)
			took := time.Since(began).Seconds()
			out := outcome(res, err)
			attrs := []attribute.KeyValue{
				attribute.String("mcp.method.name", "tools/call"),
				attribute.String("gen_ai.tool.name", req.Params.Name),
				attribute.String("gen_ai.operation.name", "execute_tool"),
			}
			if out != session.OutcomeOK {
				attrs = append(attrs, attribute.String("error.type", errorTypeTool))
			}
			operation.Record(ctx, took, metric.WithAttributes(attrs...))
			call.Record(ctx, took, metric.WithAttributes(
				attribute.String(session.KeyTool, req.Params.Name), attribute.String(session.KeyOutcome, out)))
			return res, err
		}
	}
}

// histogram makes a histogram of durations; one that cannot be made costs its
// figures and no call.
func histogram(meter metric.Meter, name, description string) metric.Float64Histogram {
	h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(durationBuckets...))
	if err != nil {
		otel.Handle(err)
		return noop.Float64Histogram{}
	}
	return h
}

// outcome is session.OutcomeOK or the code of a result's error.
func outcome(res *mcp.CallToolResult, err error) string {
	switch {
	case err != nil:
		return string(session.Internal)
	case res == nil || !res.IsError:
		return session.OutcomeOK
	case res.Meta != nil:
		if f, ok := res.Meta.AdditionalFields[session.MetaError].(session.Failure); ok {
			return string(f.Code)
		}
	}
	return string(session.Internal)
}
