package activities

import (
	"context"
	"crypto/sha256"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// tracerName is the instrumentation scope of the spans made here.
const tracerName = "github.com/mcp-sandbox/mcp-sandbox/activities"

// execSpan is the name of the span of a command's processes.
const execSpan = "exec"

// traceCommand tells the trace of a run_command what became of its command. One
// that has ended gets a span of its own, by the times that the guest recorded:
// the guest exports nothing. Neither command, environment nor output is on it.
func traceCommand(ctx context.Context, t Task[session.RunCommandIn], c guest.Command) {
	asked := trace.SpanFromContext(ctx)
	if !asked.IsRecording() {
		return
	}
	asked.SetAttributes(attribute.String(session.KeyCommandStatus, string(c.Status)))
	if !c.Status.Final() {
		return // whoever sees the end tells of it
	}
	tell := func() {
		parent, began := within(asked, time.UnixMilli(c.StartedUnixMS))
		ended := time.UnixMilli(c.EndedUnixMS)
		if ended.Before(began) { // lost, or in the millisecond in which it began
			ended = began
		}
		id := execSpanID(parent.TraceID(), t.Ref.SessionID, t.CallID)
		_, span := asked.TracerProvider().Tracer(tracerName).Start(
			session.WithSpanID(trace.ContextWithSpanContext(context.Background(), parent), id), execSpan,
			trace.WithTimestamp(began), trace.WithAttributes(commandAttributes(t, c)...))
		span.End(trace.WithTimestamp(ended))
	}
	if h, ok := ctx.Value(heldSpansKey{}).(*heldSpans); ok {
		h.tell = tell
		return
	}
	tell()
}

// within finds the innermost span that was there when a command began: that of
// the activity that asks; or, when an attempt before began it (on the near way, or
// by a worker that was killed), that of the handler. So a child lies within its
// parent. The guest's times are cut to milliseconds.
func within(asked trace.Span, began time.Time) (parent trace.SpanContext, start time.Time) {
	outer, ok := asked.(interface {
		Parent() trace.SpanContext
		StartTime() time.Time
	})
	switch {
	case !ok:
		return asked.SpanContext(), began
	case began.Add(time.Millisecond).After(outer.StartTime()):
		if began.Before(outer.StartTime()) {
			began = outer.StartTime()
		}
		return asked.SpanContext(), began
	case outer.Parent().IsValid():
		return outer.Parent(), began
	default:
		return asked.SpanContext(), began
	}
}

// execSpanID is the same whoever sees a command's end, so that a command of which
// two attempts tell is one span of its trace.
func execSpanID(traceID trace.TraceID, sessionID, callID string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte(execSpan + "\x00" + traceID.String() + "\x00" + sessionID + "\x00" + callID))
	copy(id[:], sum[:])
	return id
}

func commandAttributes(t Task[session.RunCommandIn], c guest.Command) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String(session.KeySession, t.Ref.SessionID),
		attribute.String(session.KeyCall, t.CallID),
		attribute.String(session.KeyCommandStatus, string(c.Status)),
		attribute.Bool(session.KeyOOMKilled, c.OOMKilled),
		attribute.Int64(session.KeyStdoutBytes, c.Stdout.Total),
		attribute.Int64(session.KeyStderrBytes, c.Stderr.Total),
	}
	if c.ExitCode != nil {
		attrs = append(attrs, attribute.Int(session.KeyExitCode, *c.ExitCode))
	}
	if c.Signal != "" {
		attrs = append(attrs, attribute.String(session.KeySignal, c.Signal))
	}
	return attrs
}

type heldSpansKey struct{}

// heldSpans keeps back what is to be told of a near call until it is known that
// its answer is the call's.
type heldSpans struct{ tell func() }

// holdSpans keeps traceCommand back until release is called; if it never is,
// nothing is told.
func holdSpans(ctx context.Context) (_ context.Context, release func()) {
	h := &heldSpans{}
	return context.WithValue(ctx, heldSpansKey{}, h), func() {
		if h.tell != nil {
			h.tell()
		}
	}
}
