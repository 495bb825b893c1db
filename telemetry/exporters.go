package telemetry

import (
	"context"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Protocols of OTLP.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// environment reads OpenTelemetry's standard variables that choose exporters. The
// exporters read the rest of theirs (headers, certificates, timeouts) themselves.
//
//	OTEL_SDK_DISABLED                      true: nothing is exported
//	OTEL_TRACES_EXPORTER                   otlp, none
//	OTEL_METRICS_EXPORTER                  otlp, none, prometheus (/metrics, which is always there)
//	OTEL_EXPORTER_OTLP[_TRACES|_METRICS]_ENDPOINT
//	OTEL_EXPORTER_OTLP[_TRACES|_METRICS]_PROTOCOL   http/protobuf (the default), grpc
//
// Unlike the standard, without an endpoint and without an exporter's name nothing
// is sent: there is no collector on most machines.
type environment struct {
	getenv func(string) string
	log    *slog.Logger
}

// otlp tells whether a signal, TRACES or METRICS, is to be exported, and how.
func (e environment) otlp(ctx context.Context, signal string) (protocol string, ok bool) {
	if strings.EqualFold(e.getenv("OTEL_SDK_DISABLED"), "true") {
		return "", false
	}
	variable := "OTEL_" + signal + "_EXPORTER"
	for name := range strings.SplitSeq(e.getenv(variable), ",") {
		switch name = strings.TrimSpace(name); name {
		case "":
			ok = ok || e.either(signal, "ENDPOINT") != ""
		case "otlp":
			ok = true
		case "none", "prometheus":
		default: // ignored with a warning, as the standard wants
			e.log.WarnContext(ctx, "unknown exporter; otlp and none are known", "variable", variable, "value", name)
		}
	}
	switch protocol = e.either(signal, "PROTOCOL"); protocol {
	case "":
		protocol = protocolHTTP
	case protocolGRPC, protocolHTTP:
	default:
		e.log.WarnContext(ctx, "unknown OTLP protocol, http/protobuf is used; grpc is known too", "value", protocol)
		protocol = protocolHTTP
	}
	return protocol, ok
}

// either gives a signal's own variable, or the one for all signals.
func (e environment) either(signal, name string) string {
	if v := e.getenv("OTEL_EXPORTER_OTLP_" + signal + "_" + name); v != "" {
		return v
	}
	return e.getenv("OTEL_EXPORTER_OTLP_" + name)
}

// spanExporter gives the exporter that the environment asks for, or nil.
func (e environment) spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	switch protocol, ok := e.otlp(ctx, "TRACES"); {
	case !ok:
		return nil, nil //nolint:nilnil // no exporter is a choice, not an error
	case protocol == protocolGRPC:
		return otlptracegrpc.New(ctx)
	default:
		return otlptracehttp.New(ctx)
	}
}

// metricReader gives the reader that the environment asks for, or nil. It exports
// every 60 s, or as OTEL_METRIC_EXPORT_INTERVAL says.
func (e environment) metricReader(ctx context.Context) (sdkmetric.Reader, error) {
	protocol, ok := e.otlp(ctx, "METRICS")
	if !ok {
		return nil, nil //nolint:nilnil // as above
	}
	var exporter sdkmetric.Exporter
	var err error
	if protocol == protocolGRPC {
		exporter, err = otlpmetricgrpc.New(ctx)
	} else {
		exporter, err = otlpmetrichttp.New(ctx)
	}
	if err != nil {
		return nil, err
	}
	return sdkmetric.NewPeriodicReader(exporter), nil
}
