package docker

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/docker/docker/client"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// traced has requests to the engine show in the trace of the call that they are
// for. Docker's client would also make a trace of each request that is for none,
// and name spans after containers, which are without number.
func traced() client.Opt {
	return client.WithTraceOptions(
		otelhttp.WithFilter(func(r *http.Request) bool { return trace.SpanContextFromContext(r.Context()).IsValid() }),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return requestName(r.Method, r.URL.Path) }),
		otelhttp.WithMeterProvider(noop.NewMeterProvider()),
	)
}

// untraced gives a context whose requests show in no trace: Docker's client would
// show the opening of a stream as a root span of its own, or as a span of the call
// that happened to need the stream first, with no name to tell it by.
func untraced(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, // of no trace that is sampled
	}))
}

// requestName names a request without what it is about, as in
// "docker POST /containers/{id}/start".
func requestName(method, path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if strings.HasPrefix(parts[0], "v") && strings.Contains(parts[0], ".") { // the API's version
		parts = parts[1:]
	}
	if len(parts) == 0 {
		return "docker " + method
	}
	last := len(parts) - 1
	name := "docker " + method + " /" + parts[0]
	verb := last > 0 && slices.Contains(verbs, parts[last])
	if last > 1 || last == 1 && !verb { // names of images have slashes in them
		name += "/{id}"
	}
	if verb {
		name += "/" + parts[last]
	}
	return name
}

// verbs are the last words of the paths of the engine's API that name no thing.
var verbs = []string{
	"json", "create", "start", "stop", "kill", "pause", "unpause", "update", "wait", "exec", "resize", "archive",
	"prune", "load", "get", "tag", "history", "connect", "disconnect",
}
