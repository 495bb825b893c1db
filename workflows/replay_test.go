package workflows_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/telemetry"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

// Sessions live for days: today's code must take the turns that stored histories
// took. They are recorded by `go test ./test/replay -record`; a new one goes
// beside the old ones, which stay as long as such sessions may run.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files, "no stored history: record some with `go test ./test/replay -record`")
	for _, file := range files {
		for name, o := range map[string]workflows.Options{
			"": {},
			// A run keeps the options it began with.
			", other options": {CallBound: time.Millisecond, EventsPerRun: 5, SnapshotRetention: time.Minute},
		} {
			t.Run(filepath.Base(file)+name, func(t *testing.T) {
				replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DataConverter: session.DataConverter()})
				require.NoError(t, err)
				workflows.Register(replayer, o)
				log := sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
				require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(log, file))
			})
		}
	}
}

// What a replay repeats was told of when it happened: it makes no spans. Some of
// the histories carry trace contexts, so that there would be some.
func TestReplayTellsNothing(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*.json")
	require.NoError(t, err)
	recorder := tracetest.NewSpanRecorder()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	traced := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		traced += bytes.Count(b, []byte(session.TraceHeader))
		replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
			DataConverter: session.DataConverter(), Interceptors: []interceptor.WorkerInterceptor{telemetry.NewInterceptor(traces)},
		})
		require.NoError(t, err)
		workflows.Register(replayer, workflows.Options{})
		require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)), file))
	}
	require.Greater(t, traced, 20)
	require.Empty(t, recorder.Started())
}
