package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"

	"github.com/mcp-sandbox/mcp-sandbox/telemetry"
)

func TestStart(t *testing.T) {
	p, err := telemetry.Start(t.Context(), telemetry.Options{Version: "test", Getenv: func(string) string { return "" }})
	require.NoError(t, err)
	defer p.Close(t.Context())

	_, span := otel.Tracer("test").Start(t.Context(), "a call")
	require.True(t, span.SpanContext().TraceID().IsValid(), "a trace ID without a collector")
	span.End()

	calls, err := otel.Meter("test").Int64Counter("calls")
	require.NoError(t, err)
	calls.Add(t.Context(), 2)
	w := httptest.NewRecorder()
	p.Metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Contains(t, w.Body.String(), "calls_total{")
	require.Contains(t, w.Body.String(), "go_goroutines ")
}
