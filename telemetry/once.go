package telemetry

import (
	"context"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// remembered is how many spans of a wanted ID Once remembers.
const remembered = 4096

// Once passes a span whose ID was asked for (session.WithSpanID) on to next only
// the first time. A workflow task may be carried out again when its result is not
// yet stored: by a query that has the workflow loaded meanwhile, or after a
// time-out of the task; what ends in it is then told of twice. Another process that
// tells of it again gives the span the same ID, by which a backend can know it.
// Of older spans than the last 4,096 nothing is remembered.
func Once(next sdktrace.SpanProcessor) sdktrace.SpanProcessor {
	return &once{SpanProcessor: next, seen: map[spanKey]bool{}, again: map[spanKey]int{}}
}

type spanKey struct {
	trace trace.TraceID
	span  trace.SpanID
}

func keyOf(c trace.SpanContext) spanKey { return spanKey{c.TraceID(), c.SpanID()} }

type once struct {
	sdktrace.SpanProcessor

	mu     sync.Mutex
	seen   map[spanKey]bool
	oldest []spanKey       // of seen, in order
	again  map[spanKey]int // spans under way that are not to be passed on
}

// OnStart implements sdktrace.SpanProcessor.
func (o *once) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	if id, ok := session.WantedSpanID(ctx); ok && id == s.SpanContext().SpanID() {
		o.note(keyOf(s.SpanContext()))
	}
	o.SpanProcessor.OnStart(ctx, s)
}

func (o *once) note(key spanKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[key] {
		o.again[key]++
		return
	}
	if len(o.oldest) == remembered {
		delete(o.seen, o.oldest[0])
		o.oldest = o.oldest[1:]
	}
	o.seen[key] = true
	o.oldest = append(o.oldest, key)
}

// OnEnd implements sdktrace.SpanProcessor.
func (o *once) OnEnd(s sdktrace.ReadOnlySpan) {
	if !o.drop(keyOf(s.SpanContext())) {
		o.SpanProcessor.OnEnd(s)
	}
}

func (o *once) drop(key spanKey) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch n := o.again[key]; n {
	case 0:
		return false
	case 1:
		delete(o.again, key)
	default:
		o.again[key] = n - 1
	}
	return true
}
