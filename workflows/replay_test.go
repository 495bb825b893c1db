package workflows_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/mcp-sandbox/mcp-sandbox/session"
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
