// Package telemetry sets OpenTelemetry up.
//
// Entry point: Start, configured by OpenTelemetry's own environment variables
// (OTEL_EXPORTER_OTLP_ENDPOINT and the rest). Only cmd imports it; everybody
// else uses the OpenTelemetry API. Without a collector spans are made all the
// same, so that each call has a trace ID, and dropped.
package telemetry
