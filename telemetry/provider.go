package telemetry

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// serviceName is the default of service.name; OTEL_SERVICE_NAME overrides it.
const serviceName = "mcp-sandbox"

// Options configure Start.
type Options struct {
	Version string
	// Getenv reads the environment, to see whether a collector is configured.
	Getenv func(string) string
}

// Provider is the set-up; Close flushes it.
type Provider struct {
	// Metrics answers a Prometheus scrape.
	Metrics http.Handler

	traces  *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
}

// Start sets the global tracer and meter providers. A collector that cannot be reached is
// no error: spans are exported in the background, and dropped when they cannot
// be.
func Start(ctx context.Context, o Options) (*Provider, error) {
	res, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(serviceName), semconv.ServiceVersion(o.Version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("describe this process to OpenTelemetry: %w", err)
	}
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
	exporter, err := newExporter(ctx, o.Getenv)
	if err != nil {
		return nil, fmt.Errorf("set up the OTLP exporter: %w", err)
	}
	if exporter != nil {
		opts = append(opts, sdktrace.WithBatcher(exporter))
	}
	tp := sdktrace.NewTracerProvider(opts...)
	otel.SetTracerProvider(tp)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) // export errors are no news for users
	mp, handler, err := startMetrics(res)
	if err != nil {
		return nil, err
	}
	return &Provider{Metrics: handler, traces: tp, metrics: mp}, nil
}

// newExporter gives the exporter that the environment asks for, or nil.
func newExporter(ctx context.Context, getenv func(string) string) (sdktrace.SpanExporter, error) {
	endpoint := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
	if !endpoint || getenv("OTEL_SDK_DISABLED") == "true" || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil //nolint:nilnil // no exporter is a choice, not an error
	}
	protocol := getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol == "grpc" {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// Close exports what is left, within ctx.
func (p *Provider) Close(ctx context.Context) {
	_ = p.traces.Shutdown(ctx)
	_ = p.metrics.Shutdown(ctx)
}
