package telemetry

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// newMetrics makes the meter provider, which a Prometheus scrape reads beside what
// the Go runtime and the process tell of themselves, and another reader, if any.
func newMetrics(res *resource.Resource, other sdkmetric.Reader) (*sdkmetric.MeterProvider, http.Handler, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("set up the Prometheus exporter: %w", err)
	}
	opts := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithReader(reader)}
	if other != nil {
		opts = append(opts, sdkmetric.WithReader(other))
	}
	return sdkmetric.NewMeterProvider(opts...), promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
