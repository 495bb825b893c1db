package harness

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector takes traces over OTLP/HTTP.
type Collector struct {
	url string

	mu      sync.Mutex
	spans   []*tracepb.Span
	metrics int // requests with metrics
}

// StartCollector starts a collector on a free port of loopback.
func StartCollector(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", c.traces)
	mux.HandleFunc("POST /v1/metrics", func(http.ResponseWriter, *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.metrics++
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// Env are the variables by which a process sends its traces here, soon.
func (c *Collector) Env() []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_METRIC_EXPORT_INTERVAL=500",
	}
}

func (c *Collector) traces(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var req collector.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &req) != nil {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			c.spans = append(c.spans, s.GetSpans()...)
		}
	}
}

// Metrics is how many requests with metrics came.
func (c *Collector) Metrics() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics
}

// Span is a span as it was received.
type Span struct {
	Name       string
	ID, Parent string // hex; Parent "" for a root
	Start, End time.Time
	Attributes map[string]any
	Links      []string // trace IDs
}

// Trace is what was received of one trace.
type Trace []Span

// Trace gives the spans of a trace that have come so far.
func (c *Collector) Trace(traceID string) (found Trace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if hex.EncodeToString(s.GetTraceId()) != traceID {
			continue
		}
		span := Span{
			Name: s.GetName(), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
			Start: unixNano(s.GetStartTimeUnixNano()), End: unixNano(s.GetEndTimeUnixNano()), Attributes: map[string]any{},
		}
		for _, l := range s.GetLinks() {
			span.Links = append(span.Links, hex.EncodeToString(l.GetTraceId()))
		}
		for _, kv := range s.GetAttributes() {
			span.Attributes[kv.GetKey()] = plain(kv.GetValue())
		}
		found = append(found, span)
	}
	return found
}

// Await waits until a trace has a span for each of these paths and gives it. Then
// nothing but these may be in it, but for requests to the engine that only look.
func (c *Collector) Await(t *testing.T, traceID string, paths ...string) (found Trace) {
	t.Helper()
	return c.AwaitOneOf(t, traceID, paths)
}

// AwaitOneOf is Await for a call that may have gone one way or another.
func (c *Collector) AwaitOneOf(t *testing.T, traceID string, ways ...[]string) (found Trace) {
	t.Helper()
	for _, paths := range ways {
		slices.Sort(paths)
	}
	ok := func() bool {
		found = slices.DeleteFunc(c.Trace(traceID), func(s Span) bool { return strings.HasPrefix(s.Name, "docker GET ") })
		return slices.ContainsFunc(ways, func(paths []string) bool { return slices.Equal(paths, found.Paths()) })
	}
	for deadline := time.Now().Add(20 * time.Second); !ok() && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	require.Contains(t, ways, found.Paths())
	return found
}

// Paths are the names from the outermost span that was received down to each,
// sorted; "" where a parent is missing. Only the span of the tool call may have
// one elsewhere, at the caller's.
func (tr Trace) Paths() []string {
	paths := make([]string, len(tr))
	for i, span := range tr {
		path := span.Name
		for span.Parent != "" {
			up := slices.IndexFunc(tr, func(p Span) bool { return p.ID == span.Parent })
			if up < 0 {
				if !strings.HasPrefix(span.Name, "tools/call ") {
					path = ""
				}
				break
			}
			span = tr[up]
			path = span.Name + " > " + path
		}
		paths[i] = path
	}
	slices.Sort(paths)
	return paths
}

// Named gives the spans of a name.
func (tr Trace) Named(name string) (found Trace) {
	for _, s := range tr {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// RequireInside wants each span within its parent.
func (tr Trace) RequireInside(t *testing.T) {
	t.Helper()
	for _, s := range tr {
		for _, p := range tr {
			if p.ID == s.Parent {
				require.False(t, s.Start.Before(p.Start), "%s begins %s before %s", s.Name, p.Start.Sub(s.Start), p.Name)
				require.False(t, s.End.After(p.End), "%s ends %s after %s", s.Name, s.End.Sub(p.End), p.Name)
			}
		}
	}
}

func unixNano(n uint64) time.Time { return time.Unix(0, int64(n)) } //nolint:gosec // within the next centuries

func plain(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_BoolValue:
		return v.BoolValue
	default:
		return nil
	}
}
