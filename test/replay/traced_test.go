package replay_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/telemetry"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

// spans collects what is exported.
type spans struct {
	*tracetest.InMemoryExporter
	*sdktrace.TracerProvider
}

func newSpans() spans {
	e := tracetest.NewInMemoryExporter()
	return spans{e, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(telemetry.Once(sdktrace.NewSimpleSpanProcessor(e))), sdktrace.WithIDGenerator(telemetry.IDGenerator{}))}
}

// traced makes a call under a span of its own and gives the spans of its trace.
func traced[In, Out any](s spans, b box, op session.Operation[In, Out], id string, in In) (Out, tree) {
	b.t.Helper()
	ctx, root := s.Tracer("test").Start(b.t.Context(), "call")
	out, _, err := session.Do(ctx, b.Client, op, session.Call{Owner: owner, SessionID: b.id, CallID: id}, in)
	require.NoError(b.t, err)
	root.End()
	return out, s.trace(b.t, root.SpanContext().TraceID())
}

// trace waits until each span of a trace has its parent, and the handler is told
// of: it ends a moment after the client has its answer.
func (s spans) trace(t *testing.T, id trace.TraceID) (all tree) {
	t.Helper()
	complete := func() bool {
		all = slices.DeleteFunc(slices.Clone(tree(s.GetSpans())), func(span tracetest.SpanStub) bool { return span.SpanContext.TraceID() != id })
		return !slices.ContainsFunc(all, func(span tracetest.SpanStub) bool {
			return span.Parent.IsValid() && !slices.ContainsFunc(all, func(p tracetest.SpanStub) bool { return p.SpanContext.SpanID() == span.Parent.SpanID() })
		})
	}
	require.Eventually(t, complete, 10*time.Second, 10*time.Millisecond, "orphans")
	return all
}

type tree []tracetest.SpanStub

// paths are the names from the root to each span, sorted.
func (all tree) paths() []string {
	var paths []string
	for _, span := range all {
		path := span.Name
		for up := span; up.Parent.IsValid(); {
			up = all[slices.IndexFunc(all, func(p tracetest.SpanStub) bool { return p.SpanContext.SpanID() == up.Parent.SpanID() })]
			path = up.Name + "/" + path
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

func (all tree) named(name string) (found tree) {
	for _, span := range all {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

func value(span tracetest.SpanStub, key string) any {
	for _, kv := range span.Attributes {
		if kv.Key == attribute.Key(key) {
			return kv.Value.AsInterface()
		}
	}
	return nil
}

// requireInside wants each child within its parent.
func (all tree) requireInside(t *testing.T) {
	t.Helper()
	for _, span := range all {
		for _, p := range all {
			if p.SpanContext.SpanID() == span.Parent.SpanID() {
				require.False(t, span.StartTime.Before(p.StartTime), "%s begins %s before %s", span.Name, p.StartTime.Sub(span.StartTime), p.Name)
				require.False(t, span.EndTime.After(p.EndTime), "%s ends %s after %s", span.Name, span.EndTime.Sub(p.EndTime), p.Name)
			}
		}
	}
}

const update = "call/UpdateWorkflow:run_command/HandleUpdate:run_command"

// A call has one trace, down to its processes, whatever a replay or an eviction
// from the cache repeats.
func TestTraced(t *testing.T) {
	s := newSpans()
	i := installTraced(t, workflows.Options{}, s)
	b := box{i, ""}
	started, all := traced(s, b, session.StartSession, "", session.StartSessionIn{Name: "traced"})
	b.id = started.SessionID
	require.Equal(t, []string{
		"call",
		"call/StartWorkflow:Session",
		"call/StartWorkflow:Session/QueueWait:CreateSandbox",
		"call/StartWorkflow:Session/QueueWait:PlaceSession",
		"call/StartWorkflow:Session/RunActivity:CreateSandbox",
		"call/StartWorkflow:Session/RunActivity:PlaceSession",
		"call/UpdateWorkflow:start_session",
		"call/UpdateWorkflow:start_session/HandleUpdate:start_session",
	}, all.paths())

	t.Run("a short command", func(t *testing.T) {
		_, all := traced(s, b, session.RunCommand, "c_short", session.RunCommandIn{Command: "echo hi; exit 3"})
		require.Equal(t, []string{
			"call", "call/UpdateWorkflow:run_command", update,
			update + "/RunActivity:NearRunCommand",
			update + "/RunActivity:NearRunCommand/exec",
		}, all.paths())
		all.requireInside(t)
		d, err := b.temporal.DescribeWorkflow(t.Context(), session.WorkflowIDPrefix+b.id, "")
		require.NoError(t, err)
		for _, name := range []string{"UpdateWorkflow:run_command", "HandleUpdate:run_command", "RunActivity:NearRunCommand"} {
			span := all.named(name)[0]
			require.Equal(t, b.id, value(span, session.KeySession), name)
			require.Equal(t, "c_short", value(span, session.KeyCall), name)
			require.Equal(t, session.WorkflowIDPrefix+b.id, value(span, session.KeyWorkflow), name)
			require.Equal(t, d.WorkflowExecution.RunID, value(span, session.KeyRun), name)
			require.Equal(t, session.OutcomeOK, value(span, session.KeyOutcome), name)
		}
		require.Equal(t, "c_short", value(all.named("HandleUpdate:run_command")[0], session.KeyUpdate))
		exec := all.named("exec")[0]
		require.Equal(t, int64(3), value(exec, session.KeyExitCode))
		require.Equal(t, int64(3), value(exec, session.KeyStdoutBytes))
		require.Equal(t, session.CommandExited, value(exec, session.KeyCommandStatus))
	})

	t.Run("a longer command", func(t *testing.T) {
		_, all := traced(s, b, session.RunCommand, "c_long", session.RunCommandIn{Command: "sleep 0.4; kill -9 $$"})
		require.Equal(t, []string{
			"call", "call/UpdateWorkflow:run_command", update,
			update + "/QueueWait:RunCommand",
			update + "/RunActivity:NearRunCommand",
			update + "/RunActivity:RunCommand",
			update + "/exec",
		}, all.paths())
		all.requireInside(t)
		exec := all.named("exec")[0]
		require.Equal(t, "KILL", value(exec, session.KeySignal))
		require.InDelta(t, 0.4, exec.EndTime.Sub(exec.StartTime).Seconds(), 0.3)
	})

	t.Run("sent again", func(t *testing.T) {
		_, all := traced(s, b, session.RunCommand, "c_short", session.RunCommandIn{Command: "echo hi; exit 3"})
		require.Equal(t, []string{"call", "call/UpdateWorkflow:run_command"}, all.paths(), "nothing ran")
	})

	t.Run("evicted and loaded again", func(t *testing.T) {
		s.Reset()
		for range 50 {
			worker.PurgeStickyWorkflowCache()
			b.query(t)
		}
		require.Empty(t, s.GetSpans())
		_, all := traced(s, b, session.RunCommand, "", session.RunCommandIn{Command: "true"})
		require.Len(t, all, 5)
	})

	t.Run("evicted under a handler", func(t *testing.T) {
		var all tree
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, all = traced(s, b, session.RunCommand, "c_evicted", session.RunCommandIn{Command: "sleep 1.5"})
		}()
		for evicting := true; evicting; {
			worker.PurgeStickyWorkflowCache()
			b.query(t)
			select {
			case <-done:
				evicting = false
			case <-time.After(50 * time.Millisecond):
			}
		}
		require.Len(t, all.named("HandleUpdate:run_command"), 1)
		require.Len(t, all.named("exec"), 1)
		all.requireInside(t)
	})

	_, all = traced(s, b, session.EndSession, "", session.EndSessionIn{})
	require.Contains(t, all.paths(), "call/SignalWorkflow:end/RunActivity:RemoveSession")
	b.record("traced", session.WorkflowIDPrefix+b.id)

	s.Reset()
	for _, h := range b.histories(session.WorkflowIDPrefix + b.id) {
		replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
			DataConverter: session.DataConverter(), Interceptors: []interceptor.WorkerInterceptor{telemetry.NewInterceptor(s)},
		})
		require.NoError(t, err)
		workflows.Register(replayer, workflows.Options{})
		require.NoError(t, replayer.ReplayWorkflowHistory(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)), h))
	}
	require.Empty(t, s.GetSpans(), "a replay tells nothing")
}

// query has the workflow answer a query, for which it is loaded.
func (b box) query(t *testing.T) {
	t.Helper()
	_, err := b.temporal.QueryWorkflow(t.Context(), session.WorkflowIDPrefix+b.id, "", session.QueryStatus, session.Asker{Owner: owner})
	require.NoError(t, err)
}

// A call that several runs had at hand is in one trace: under the span of its
// sending are a handler of each run, and the command once.
func TestTracedOverRuns(t *testing.T) {
	s := newSpans()
	b := installTraced(t, workflows.Options{EventsPerRun: 40}, s).start(session.StartSessionIn{Name: "traced-runs"})
	slow := make(chan tree)
	go func() {
		_, all := traced(s, b, session.RunCommand, "c_slow", session.RunCommandIn{Command: "sleep 3; exit 4"})
		slow <- all
	}()
	for range 20 {
		do(b, session.RunCommand, "", session.RunCommandIn{Command: "true"})
	}
	all := <-slow
	handlers := all.named("HandleUpdate:run_command")
	require.Greater(t, len(handlers), 1)
	runs := map[any]bool{}
	for _, h := range handlers {
		runs[value(h, session.KeyRun)] = true
	}
	require.Len(t, runs, len(handlers), "one of each run")
	slices.SortFunc(handlers, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	for n, h := range handlers {
		want := any(session.FailureReattach)
		if n == len(handlers)-1 {
			want = session.OutcomeOK
		}
		require.Equal(t, want, value(h, session.KeyOutcome))
	}
	require.Len(t, all.named("exec"), 1)
	require.Equal(t, int64(4), value(all.named("exec")[0], session.KeyExitCode))
	do(b, session.EndSession, "", session.EndSessionIn{})
	b.record("traced-runs", session.WorkflowIDPrefix+b.id)
}
