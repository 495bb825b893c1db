package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// serviceName is the default of service.name; OTEL_SERVICE_NAME overrides it.
const serviceName = "mcp-sandbox"

// CloseTimeout is how long Close waits for a collector. What it has not taken by
// then is dropped.
const CloseTimeout = 2 * time.Second

// Options configure Start.
type Options struct {
	Version string
	// Getenv reads the environment, to see whether a collector is configured.
	Getenv func(string) string
	// Logger is told of settings that are not understood, and at debug level of
	// exports that failed. Default: none.
	Logger *slog.Logger
}

// Provider is the set-up; Close flushes it.
type Provider struct {
	// Metrics answers a Prometheus scrape.
	Metrics http.Handler

	traces  *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
}

// Start sets the global tracer and meter providers. A collector that cannot be
// reached is no error: spans wait in a queue of 2,048 (OTEL_BSP_MAX_QUEUE_SIZE),
// are exported in the background, and dropped when they cannot be.
func Start(ctx context.Context, o Options) (*Provider, error) {
	log := cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	res, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(serviceName), semconv.ServiceVersion(o.Version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("describe this process to OpenTelemetry: %w", err)
	}
	env := environment{getenv: o.Getenv, log: log}
	exporter, err := env.spanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("set up the OTLP exporter of traces: %w", err)
	}
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res), sdktrace.WithIDGenerator(IDGenerator{})}
	if exporter != nil {
		opts = append(opts, sdktrace.WithSpanProcessor(Once(sdktrace.NewBatchSpanProcessor(exporter))))
	}
	reader, err := env.metricReader(ctx)
	if err != nil {
		return nil, fmt.Errorf("set up the OTLP exporter of metrics: %w", err)
	}
	mp, handler, err := newMetrics(res, reader)
	if err != nil {
		return nil, err
	}
	tp := sdktrace.NewTracerProvider(opts...)
	otel.SetTracerProvider(tp)
	otel.SetMeterProvider(mp)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { // no news for users
		log.DebugContext(ctx, "telemetry", "error", err)
	}))
	return &Provider{Metrics: handler, traces: tp, metrics: mp}, nil
}

// Close exports what is left, for at most CloseTimeout. A nil Provider is closed.
func (p *Provider) Close(ctx context.Context) {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, CloseTimeout)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { _ = p.traces.Shutdown(ctx) })
	both.Go(func() { _ = p.metrics.Shutdown(ctx) })
	both.Wait()
}
