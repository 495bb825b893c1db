package tools_test

import (
	"net/http"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// C13: the span of a call is a child of the context in `_meta`, else of the one
// in the header, else a new root; the result names the trace.
func TestSpanOfACall(t *testing.T) {
	const (
		metaTrace   = "11111111111111111111111111111111"
		headerTrace = "22222222222222222222222222222222"
	)
	traceparent := func(id string) string { return "00-" + id + "-3333333333333333-01" }
	for name, c := range map[string]struct {
		meta, header string
		want         string // "" is a new root
	}{
		"meta":             {traceparent(metaTrace), "", metaTrace},
		"header":           {"", traceparent(headerTrace), headerTrace},
		"both":             {traceparent(metaTrace), traceparent(headerTrace), metaTrace},
		"none":             {"", "", ""},
		"malformed meta":   {"00-zz-33-01", "", ""},
		"malformed header": {"", "nonsense", ""},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
			ts := newHTTP(t, tools.Options{Caller: &caller{}, Tracer: provider.Tracer("test")})
			req := request("get_session", `{"session_id":"s"}`)
			if c.meta != "" {
				req.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{"traceparent": c.meta}}
			}
			if c.header != "" {
				req.Header = http.Header{"Traceparent": {c.header}}
			}
			result := call(t, dial(t, ts, stateless), req)
			require.False(t, result.IsError)

			require.Len(t, recorder.Ended(), 1)
			span := recorder.Ended()[0]
			require.Equal(t, "tools/call get_session", span.Name())
			require.Equal(t, trace.SpanKindServer, span.SpanKind())
			id := span.SpanContext().TraceID().String()
			require.Equal(t, id, result.Meta.AdditionalFields[session.MetaTraceID])
			require.Equal(t, c.want != "", span.Parent().IsValid())
			if c.want != "" {
				require.Equal(t, c.want, id)
			}
		})
	}
}
