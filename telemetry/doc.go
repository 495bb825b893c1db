// Package telemetry sets OpenTelemetry up and joins Temporal to it.
//
// Entry points: Start, configured by OpenTelemetry's own environment variables
// (OTEL_EXPORTER_OTLP_ENDPOINT and the rest; exporters.go says which); Instrument,
// which gives the options of a Temporal client the interceptor and the metrics
// handler, for the client and for the workers made of it; LogHandler, which gives
// log lines their trace. Only cmd imports it; everybody else uses the
// OpenTelemetry API and the names in package session.
//
// Without a collector spans are made all the same, so that each call has a trace
// ID, and dropped. A collector that does not answer costs spans, never a call:
// they wait in a bounded queue, and Close waits for at most CloseTimeout.
//
// The trace of a call:
//
//	tools/call run_command            package tools
//	  UpdateWorkflow:run_command      package session's client, over all its attempts
//	    HandleUpdate:run_command      workflow.go: once, however often it is replayed
//	      RunActivity:NearRunCommand  activity.go: one per attempt
//	      QueueWait:RunCommand        activity.go: until a worker took it
//	      RunActivity:RunCommand
//	        exec                      package activities, by the guest's clock
package telemetry
