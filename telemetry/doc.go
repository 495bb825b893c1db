// Package telemetry sets OpenTelemetry up and makes the spans of tool calls.
//
// Entry points: Start for the provider, configured by OpenTelemetry's own
// environment variables (OTEL_EXPORTER_OTLP_ENDPOINT and the rest), and
// ToolSpans for the MCP server. Only cmd imports it; everybody else uses the
// OpenTelemetry API. Without a collector spans are made all the same, so that
// each call has a trace ID, and dropped.
package telemetry
