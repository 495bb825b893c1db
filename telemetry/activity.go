package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// activityInbound makes a span of each attempt of an activity that belongs to a
// trace, and of the time until a worker took it.
type activityInbound struct {
	interceptor.ActivityInboundInterceptorBase
	tracer trace.Tracer
}

// Init implements interceptor.ActivityInboundInterceptor.
func (a *activityInbound) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	o := &activityOutbound{}
	o.Next = outbound
	return a.Next.Init(o)
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (a *activityInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	cause := read(interceptor.Header(ctx)) //nolint:contextcheck // a header that cannot be read must not stand for the span in ctx
	if !cause.span.IsValid() {
		return a.Next.ExecuteActivity(ctx, in)
	}
	info := activity.GetInfo(ctx)
	ctx = trace.ContextWithRemoteSpanContext(ctx, cause.span)
	attrs := append(executionAttributes(info.WorkflowExecution.ID, info.WorkflowExecution.RunID, cause.call),
		attribute.Int(session.KeyAttempt, int(info.Attempt)))
	kind := trace.SpanKindInternal
	if !info.IsLocalActivity {
		kind = trace.SpanKindServer
		attrs = append(attrs, attribute.String(session.KeyQueue, info.TaskQueue))
		if info.Attempt == 1 { // of later ones it is not known when they became due
			_, wait := a.tracer.Start(ctx, "QueueWait:"+info.ActivityType.Name,
				trace.WithTimestamp(info.ScheduledTime), trace.WithAttributes(attrs...))
			wait.End(trace.WithTimestamp(latest(info.ScheduledTime, info.StartedTime)))
		}
	}
	ctx, span := a.tracer.Start(ctx, "RunActivity:"+info.ActivityType.Name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	defer span.End()
	out, err := a.Next.ExecuteActivity(ctx, in)
	setOutcome(span, err)
	return out, err
}

// activityOutbound gives an activity's log lines their trace.
type activityOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
}

// GetLogger implements interceptor.ActivityOutboundInterceptor.
func (a *activityOutbound) GetLogger(ctx context.Context) log.Logger {
	return withTrace(a.Next.GetLogger(ctx), trace.SpanContextFromContext(ctx))
}
