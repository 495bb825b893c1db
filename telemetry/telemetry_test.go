package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/telemetry"
)

// environ reads variables from pairs of name and value.
func environ(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

func TestStart(t *testing.T) {
	p, err := telemetry.Start(t.Context(), telemetry.Options{Version: "test", Getenv: environ()})
	require.NoError(t, err)
	defer p.Close(t.Context())

	_, span := otel.Tracer("test").Start(t.Context(), "a call")
	require.True(t, span.SpanContext().TraceID().IsValid(), "a trace ID without a collector")
	span.End()

	calls, err := otel.Meter("test").Int64Counter("calls")
	require.NoError(t, err)
	calls.Add(t.Context(), 2)
	text := scrape(t, p.Metrics)
	require.Contains(t, text, "calls_total 2")
	require.Contains(t, text, "go_goroutines ")
}

// What the environment asks for is done, and what it cannot mean is said.
func TestEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		env             []string
		traces, metrics bool
		warning         string
	}{
		"nothing":         {nil, false, false, ""},
		"an endpoint":     {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "URL"}, true, true, ""},
		"disabled":        {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "URL", "OTEL_SDK_DISABLED", "true"}, false, false, ""},
		"traces alone":    {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "URL", "OTEL_METRICS_EXPORTER", "none"}, true, false, ""},
		"metrics alone":   {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "URL", "OTEL_TRACES_EXPORTER", "none"}, false, true, ""},
		"prometheus":      {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "URL", "OTEL_METRICS_EXPORTER", "prometheus"}, true, false, ""},
		"by name":         {[]string{"OTEL_TRACES_EXPORTER", "otlp"}, true, false, ""},
		"unknown":         {[]string{"OTEL_TRACES_EXPORTER", "zipkin"}, false, false, "OTEL_TRACES_EXPORTER"},
		"signal's own":    {[]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "URL/v1/metrics"}, false, true, ""},
		"strange wire":    {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "URL", "OTEL_EXPORTER_OTLP_PROTOCOL", "smoke"}, true, true, "smoke"},
		"nothing for one": {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "URL/v1/traces"}, true, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 100)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
			defer server.Close()
			if name == "by name" { // the standard's default endpoint is not ours to listen on
				t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/v1/traces")
			}
			for i, v := range c.env {
				c.env[i] = strings.ReplaceAll(v, "URL", server.URL)
			}
			for i := 0; i < len(c.env); i += 2 {
				t.Setenv(c.env[i], c.env[i+1])
			}
			var log bytes.Buffer
			p, err := telemetry.Start(t.Context(), telemetry.Options{
				Getenv: environ(c.env...), Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.NoError(t, err)
			_, span := otel.Tracer("test").Start(t.Context(), "a call")
			span.End()
			calls, err := otel.Meter("test").Int64Counter("calls")
			require.NoError(t, err)
			calls.Add(t.Context(), 1)
			p.Close(t.Context())
			close(got)
			paths := map[string]bool{}
			for path := range got {
				paths[path] = true
			}
			require.Equal(t, c.traces, paths["/v1/traces"], "%v", paths)
			require.Equal(t, c.metrics, paths["/v1/metrics"], "%v", paths)
			if c.warning == "" {
				require.Empty(t, log.String())
			}
			require.Contains(t, log.String(), c.warning)
		})
	}
}

// A collector that refuses, or takes connections and never answers, holds nobody
// up: not who makes spans, nor who ends.
func TestUnreachableCollector(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0") // its backlog takes connections
	require.NoError(t, err)
	defer func() { _ = hole.Close() }()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, taken.Close())
	for name, address := range map[string]string{"refuses": taken.Addr().String(), "never answers": hole.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+address)
			p, err := telemetry.Start(t.Context(), telemetry.Options{Getenv: environ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+address)})
			require.NoError(t, err)
			const many = 50_000 // far more than the queue holds
			began := time.Now()
			for range many {
				_, span := otel.Tracer("test").Start(t.Context(), "a call")
				span.End()
			}
			require.Less(t, time.Since(began)/many, 200*time.Microsecond, "per span")
			began = time.Now()
			p.Close(t.Context())
			require.Less(t, time.Since(began), telemetry.CloseTimeout+time.Second)
		})
	}
}

func TestLogHandler(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(telemetry.LogHandler(slog.NewTextHandler(&out, nil))).With("tool", "read_file")
	ctx, span := sdktrace.NewTracerProvider().Tracer("test").Start(t.Context(), "a call")
	log.InfoContext(ctx, "inside")
	require.Contains(t, out.String(), "msg=inside tool=read_file trace_id="+span.SpanContext().TraceID().String()+
		" span_id="+span.SpanContext().SpanID().String())
	out.Reset()
	log.InfoContext(t.Context(), "outside")
	require.NotContains(t, out.String(), "trace_id")
}

// A span whose ID was asked for is passed on the first time alone.
func TestOnce(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(telemetry.Once(sdktrace.NewSimpleSpanProcessor(exporter))),
		sdktrace.WithIDGenerator(telemetry.IDGenerator{})).Tracer("test")
	ctx, root := tracer.Start(t.Context(), "root")
	id := trace.SpanID{1, 2, 3}
	for range 3 {
		wanted, span := tracer.Start(session.WithSpanID(ctx, id), "wanted")
		require.Equal(t, id, span.SpanContext().SpanID())
		_, other := tracer.Start(wanted, "child") // of the same wish, which is for one span
		other.End()
		span.End()
	}
	for range 2 {
		_, span := tracer.Start(ctx, "any")
		span.End()
	}
	root.End()
	count := map[string]int{}
	for _, s := range exporter.GetSpans() {
		count[s.Name]++
	}
	require.Equal(t, map[string]int{"wanted": 1, "any": 2, "child": 3, "root": 1}, count)
}

// Temporal's metrics keep the tags that are few, and drop all others.
func TestTemporalMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	h := telemetry.NewMetricsHandler(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	for _, id := range []string{"a", "b"} {
		tagged := h.WithTags(map[string]string{"operation": "Poll", "workflow_id": id}).WithTags(map[string]string{"namespace": "n"})
		tagged.Counter("temporal_request").Inc(1)
		tagged.Timer("temporal_request_latency").Record(1500 * time.Millisecond)
		tagged.Gauge("temporal_num_pollers").Update(3)
	}
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &data))
	found := map[string]metricdata.Aggregation{}
	for _, m := range data.ScopeMetrics[0].Metrics {
		found[m.Name] = m.Data
	}
	sum := found["temporal_request"].(metricdata.Sum[int64]).DataPoints
	require.Len(t, sum, 1)
	require.Equal(t, int64(2), sum[0].Value)
	require.Equal(t, 2, sum[0].Attributes.Len())
	require.InDelta(t, 3.0, found["temporal_request_latency"].(metricdata.Histogram[float64]).DataPoints[0].Sum, 0.001)
	require.InDelta(t, 3.0, found["temporal_num_pollers"].(metricdata.Gauge[float64]).DataPoints[0].Value, 0.001)
}
