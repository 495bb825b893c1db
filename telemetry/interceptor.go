package telemetry

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// tracerName is the instrumentation scope of the spans made here.
const tracerName = "github.com/mcp-sandbox/mcp-sandbox/telemetry"

// Instrument adds tracing and metrics to the options of a Temporal client, with
// the global providers. Workers made of the client have them too.
func Instrument(o *client.Options) {
	o.Interceptors = append(o.Interceptors, NewInterceptor(otel.GetTracerProvider()))
	o.MetricsHandler = NewMetricsHandler(otel.GetMeterProvider())
}

// Interceptor carries trace contexts through Temporal: from a client into the
// headers of what it sends, from there into handlers, and on into activities. It
// makes the spans of handlers and of activities; those of clients are made by
// who calls them, as a call may take several messages.
//
// It is for clients (client.Options.Interceptors, from where workers inherit it)
// and for workers and replayers alone.
type Interceptor struct {
	interceptor.InterceptorBase
	tracer trace.Tracer
}

var _ interceptor.Interceptor = (*Interceptor)(nil)

// NewInterceptor makes an Interceptor.
func NewInterceptor(p trace.TracerProvider) *Interceptor {
	return &Interceptor{tracer: p.Tracer(tracerName)}
}

// InterceptClient implements interceptor.ClientInterceptor.
func (i *Interceptor) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	c := &clientOutbound{}
	c.Next = next
	return c
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (i *Interceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	a := &activityInbound{tracer: i.tracer}
	a.Next = next
	return a
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (i *Interceptor) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	w := &workflowInbound{tracer: i.tracer, causes: map[string]carried{}}
	w.Next = next
	return w
}

// clientOutbound writes the present span into the headers of what may be the
// cause of work.
type clientOutbound struct {
	interceptor.ClientOutboundInterceptorBase
}

// ExecuteWorkflow implements interceptor.ClientOutboundInterceptor.
func (c *clientOutbound) ExecuteWorkflow(ctx context.Context, in *interceptor.ClientExecuteWorkflowInput) (client.WorkflowRun, error) {
	inject(ctx)
	return c.Next.ExecuteWorkflow(ctx, in)
}

// SignalWorkflow implements interceptor.ClientOutboundInterceptor.
func (c *clientOutbound) SignalWorkflow(ctx context.Context, in *interceptor.ClientSignalWorkflowInput) error {
	inject(ctx)
	return c.Next.SignalWorkflow(ctx, in)
}

// UpdateWorkflow implements interceptor.ClientOutboundInterceptor.
func (c *clientOutbound) UpdateWorkflow(ctx context.Context, in *interceptor.ClientUpdateWorkflowInput) (client.WorkflowUpdateHandle, error) {
	inject(ctx)
	return c.Next.UpdateWorkflow(ctx, in)
}

func inject(ctx context.Context) {
	carried{span: trace.SpanContextFromContext(ctx)}.write(interceptor.Header(ctx)) //nolint:contextcheck // it writes the span that it was given
}
