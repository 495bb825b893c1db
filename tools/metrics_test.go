package tools_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// Calls are counted and timed by tool and outcome, in the buckets and with the
// attributes that the MCP conventions want.
func TestDurations(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
	c := dial(t, newHTTP(t, tools.Options{Caller: &caller{}, Meter: meter}), stateless)
	require.False(t, call(t, c, request("get_session", `{"session_id":"s"}`)).IsError)
	for range 2 {
		require.True(t, call(t, c, request("get_session", `{"session":"s"}`)).IsError)
	}

	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	points := map[string]map[attribute.Set]metricdata.HistogramDataPoint[float64]{}
	for _, m := range data.ScopeMetrics[0].Metrics {
		require.Equal(t, "s", m.Unit)
		points[m.Name] = map[attribute.Set]metricdata.HistogramDataPoint[float64]{}
		for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
			points[m.Name][p.Attributes] = p
		}
	}
	ours := func(outcome string) attribute.Set {
		return attribute.NewSet(attribute.String(session.KeyTool, "get_session"), attribute.String(session.KeyOutcome, outcome))
	}
	require.Len(t, points["mcp_sandbox.call.duration"], 2)
	require.EqualValues(t, 1, points["mcp_sandbox.call.duration"][ours("ok")].Count)
	require.EqualValues(t, 2, points["mcp_sandbox.call.duration"][ours(string(session.InvalidArgument))].Count)

	standard := points["mcp.server.operation.duration"]
	require.Len(t, standard, 2)
	failed := standard[attribute.NewSet(
		attribute.String("mcp.method.name", "tools/call"), attribute.String("gen_ai.tool.name", "get_session"),
		attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("error.type", "tool_error"))]
	require.EqualValues(t, 2, failed.Count)
	require.Equal(t, []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}, failed.Bounds)
}
