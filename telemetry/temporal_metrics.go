package telemetry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.temporal.io/sdk/client"
)

// temporalTags are the tags of Temporal's SDK metrics that are kept. The values of
// each are few: names of our types and queues, and Temporal's own words. Any
// other is dropped, so that no later version brings workflow or run IDs in.
var temporalTags = []string{
	"namespace", "client_name", "poller_type", "worker_type", "workflow_type", "activity_type", "task_queue",
	"operation", "cause", "status_code", "failure_reason",
}

// temporalBuckets are in seconds: a request takes some milliseconds, an activity
// up to a minute, a long poll a little more.
var temporalBuckets = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120}

// NewMetricsHandler gives Temporal's SDK metrics (`temporal_request_latency` and
// the rest, latencies in seconds) to OpenTelemetry.
func NewMetricsHandler(p metric.MeterProvider) client.MetricsHandler {
	return &metricsHandler{instruments: &instruments{meter: p.Meter(tracerName)}, set: attribute.NewSet()}
}

// metricsHandler is one combination of tags. The SDK makes one per request.
type metricsHandler struct {
	instruments *instruments
	tags        map[string]string
	set         attribute.Set
}

// instruments are made once each, and shared by all handlers.
type instruments struct {
	meter                    metric.Meter
	counters, gauges, timers sync.Map // of name to instrument
}

// WithTags implements client.MetricsHandler.
func (h *metricsHandler) WithTags(tags map[string]string) client.MetricsHandler {
	all := maps.Clone(h.tags)
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range tags {
		if slices.Contains(temporalTags, key) {
			all[key] = value
		}
	}
	attrs := make([]attribute.KeyValue, 0, len(all))
	for key, value := range all {
		attrs = append(attrs, attribute.String(key, value))
	}
	return &metricsHandler{instruments: h.instruments, tags: all, set: attribute.NewSet(attrs...)}
}

// Counter implements client.MetricsHandler.
func (h *metricsHandler) Counter(name string) client.MetricsCounter {
	c := instrument(&h.instruments.counters, name, func() metric.Int64Counter {
		if c, err := h.instruments.meter.Int64Counter(name); err == nil {
			return c
		}
		return noop.Int64Counter{}
	})
	return counter{c, metric.WithAttributeSet(h.set)}
}

// Gauge implements client.MetricsHandler.
func (h *metricsHandler) Gauge(name string) client.MetricsGauge {
	g := instrument(&h.instruments.gauges, name, func() metric.Float64Gauge {
		if g, err := h.instruments.meter.Float64Gauge(name); err == nil {
			return g
		}
		return noop.Float64Gauge{}
	})
	return gauge{g, metric.WithAttributeSet(h.set)}
}

// Timer implements client.MetricsHandler.
func (h *metricsHandler) Timer(name string) client.MetricsTimer {
	t := instrument(&h.instruments.timers, name, func() metric.Float64Histogram {
		t, err := h.instruments.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(temporalBuckets...))
		if err == nil {
			return t
		}
		return noop.Float64Histogram{}
	})
	return timer{t, metric.WithAttributeSet(h.set)}
}

// instrument finds the instrument of a name, or makes it. Two that are made at
// once are the same to the meter.
func instrument[T any](known *sync.Map, name string, fresh func() T) T {
	if i, ok := known.Load(name); ok {
		return i.(T)
	}
	i, _ := known.LoadOrStore(name, fresh())
	return i.(T)
}

type counter struct {
	metric.Int64Counter
	with metric.MeasurementOption
}

// Inc implements client.MetricsCounter.
func (c counter) Inc(n int64) { c.Add(context.Background(), n, c.with) }

type gauge struct {
	metric.Float64Gauge
	with metric.MeasurementOption
}

// Update implements client.MetricsGauge.
func (g gauge) Update(v float64) { g.Float64Gauge.Record(context.Background(), v, g.with) }

type timer struct {
	metric.Float64Histogram
	with metric.MeasurementOption
}

// Record implements client.MetricsTimer.
func (t timer) Record(d time.Duration) {
	t.Float64Histogram.Record(context.Background(), d.Seconds(), t.with)
}
