package telemetry

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// carriedKey finds the span of the handler that a workflow context belongs to.
type carriedKey struct{}

// workflowInbound sees what reaches one run of a workflow, in a replay too.
type workflowInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	tracer trace.Tracer
	// causes are the traces of the messages that may be the cause of work outside
	// of handlers (session.WithCause); of several signals of one name the latest.
	causes map[string]carried
}

// Init implements interceptor.WorkflowInboundInterceptor.
func (w *workflowInbound) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	o := &workflowOutbound{causes: w.causes}
	o.Next = outbound
	return w.Next.Init(o)
}

// ExecuteWorkflow implements interceptor.WorkflowInboundInterceptor. A run has no
// span: it may last for days.
func (w *workflowInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	w.causes[session.CauseStart] = read(interceptor.WorkflowHeader(ctx))
	return w.Next.ExecuteWorkflow(ctx, in)
}

// HandleSignal implements interceptor.WorkflowInboundInterceptor.
func (w *workflowInbound) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	w.causes[in.SignalName] = read(interceptor.WorkflowHeader(ctx))
	return w.Next.HandleSignal(ctx, in)
}

// ExecuteUpdate implements interceptor.WorkflowInboundInterceptor. It makes the
// span of the handler when that has returned, and only if that is no replay: so
// a handler that outlives its worker has one span, from its first start to its
// real end (Once sees to the rest). Nothing is deferred: when the workflow is evicted from the cache,
// the handler is unwound without having returned. What the handler does finds
// the span's ID before there is the span, as that is derived and not random.
func (w *workflowInbound) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	caller := read(interceptor.WorkflowHeader(ctx))
	if !caller.span.IsValid() {
		return w.Next.ExecuteUpdate(ctx, in)
	}
	info := workflow.GetInfo(ctx).WorkflowExecution
	updateID := workflow.GetCurrentUpdateInfo(ctx).ID
	id := handlerSpanID(info.RunID, updateID)
	began := workflow.Now(ctx)
	out, err := w.Next.ExecuteUpdate(workflow.WithValue(ctx, carriedKey{}, carried{caller.span.WithSpanID(id), updateID}), in)
	if workflow.IsReplaying(ctx) {
		return out, err
	}
	parent := trace.ContextWithRemoteSpanContext(session.WithSpanID(context.Background(), id), caller.span)
	_, span := w.tracer.Start(parent, "HandleUpdate:"+in.Name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began),
		trace.WithAttributes(executionAttributes(info.ID, info.RunID, updateID)...),
		trace.WithAttributes(attribute.String(session.KeyUpdate, updateID)))
	setOutcome(span, err)
	span.End(trace.WithTimestamp(latest(workflow.Now(ctx), time.Now())))
	return out, err
}

// setOutcome tells how a handler or an activity ended. A call that goes on in
// the next run has not failed.
func setOutcome(span trace.Span, err error) {
	if err == nil {
		span.SetAttributes(attribute.String(session.KeyOutcome, session.OutcomeOK))
		return
	}
	outcome := session.FailureType(err)
	switch {
	case errors.Is(err, context.Canceled), temporal.IsCanceledError(err):
		outcome = session.OutcomeBrokenOff
	case outcome == "":
		outcome = "error" // of no type of ours; its text may hold what the caller sent
	}
	span.SetAttributes(attribute.String(session.KeyOutcome, outcome))
	if outcome != session.FailureReattach && outcome != session.OutcomeBrokenOff {
		span.SetAttributes(attribute.String("error.type", outcome))
		span.SetStatus(codes.Error, "")
	}
}

// executionAttributes join a span to Temporal's history. callID may be "".
func executionAttributes(workflowID, runID, callID string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String(session.KeyWorkflow, workflowID), attribute.String(session.KeyRun, runID),
	}
	if id, ok := strings.CutPrefix(workflowID, session.WorkflowIDPrefix); ok {
		attrs = append(attrs, attribute.String(session.KeySession, id))
	}
	if callID != "" {
		attrs = append(attrs, attribute.String(session.KeyCall, callID))
	}
	return attrs
}

// latest is the later of two times. The server's clock, by which a handler
// begins, may be ahead of this one's.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// workflowOutbound hands a handler's span to what it does.
type workflowOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	causes map[string]carried
}

// of gives the span that work in ctx belongs to, if it belongs to one.
func (w *workflowOutbound) of(ctx workflow.Context) carried {
	if c, ok := ctx.Value(carriedKey{}).(carried); ok {
		return c
	}
	return w.causes[session.CauseOf(ctx)]
}

// ExecuteActivity implements interceptor.WorkflowOutboundInterceptor. Headers are
// no part of what a replay compares.
func (w *workflowOutbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	w.of(ctx).write(interceptor.WorkflowHeader(ctx))
	return w.Next.ExecuteActivity(ctx, activityType, args...)
}

// ExecuteLocalActivity implements interceptor.WorkflowOutboundInterceptor.
func (w *workflowOutbound) ExecuteLocalActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	w.of(ctx).write(interceptor.WorkflowHeader(ctx))
	return w.Next.ExecuteLocalActivity(ctx, activityType, args...)
}

// ExecuteChildWorkflow implements interceptor.WorkflowOutboundInterceptor.
func (w *workflowOutbound) ExecuteChildWorkflow(ctx workflow.Context, workflowType string, args ...any) workflow.ChildWorkflowFuture {
	w.of(ctx).write(interceptor.WorkflowHeader(ctx))
	return w.Next.ExecuteChildWorkflow(ctx, workflowType, args...)
}

// GetLogger implements interceptor.WorkflowOutboundInterceptor: lines of a
// handler carry its trace.
func (w *workflowOutbound) GetLogger(ctx workflow.Context) log.Logger {
	return withTrace(w.Next.GetLogger(ctx), w.of(ctx).span)
}

func withTrace(l log.Logger, span trace.SpanContext) log.Logger {
	if !span.IsValid() {
		return l
	}
	return log.With(l, session.LogTraceID, span.TraceID().String(), session.LogSpanID, span.SpanID().String())
}
