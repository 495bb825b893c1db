package replay_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/activities/fake"
	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/telemetry"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

var record = flag.Bool("record", false, "write the histories to workflows/testdata/histories")

const owner = "alice"

// server is one for all tests of the package.
var server = sync.OnceValues(func() (*temporaldev.Server, error) {
	dir, err := os.MkdirTemp("", "replay")
	if err != nil {
		return nil, err
	}
	attributes := map[string]enumspb.IndexedValueType{}
	for _, name := range []string{
		session.AttrStatus, session.AttrOwner, session.AttrImage, session.AttrHost, session.AttrName, session.AttrSession,
	} {
		attributes[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	return temporaldev.Start(context.Background(), temporaldev.Options{DataDir: dir, SearchAttributes: attributes})
})

// holder is a backend whose snapshots wait until they may go on.
type holder struct {
	*fake.Backend
	mu   sync.Mutex
	hold chan struct{}
}

func (b *holder) TakeSnapshot(ctx context.Context, spec activities.SnapshotSpec) (activities.SnapshotImage, error) {
	b.mu.Lock()
	hold := b.hold
	b.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return activities.SnapshotImage{}, ctx.Err()
		}
	}
	return b.Backend.TakeSnapshot(ctx, spec)
}

// installation is a worker with sandboxes, and a client.
type installation struct {
	t        *testing.T
	backend  *holder
	temporal client.Client
	*session.Client
}

func install(t *testing.T, o workflows.Options) *installation {
	t.Helper()
	return installTraced(t, o, noop.NewTracerProvider())
}

// installTraced is install with a provider of tracers for client and workers.
func installTraced(t *testing.T, o workflows.Options, traces trace.TracerProvider) *installation {
	t.Helper()
	s, err := server()
	require.NoError(t, err)
	options := s.ClientOptions(nil)
	options.DataConverter = session.DataConverter()
	options.Interceptors = []interceptor.ClientInterceptor{telemetry.NewInterceptor(traces)}
	c, err := client.DialContext(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	dir, err := os.MkdirTemp("", "fake") //nolint:usetesting // its name is too long for sockets
	require.NoError(t, err)
	i := &installation{t: t, backend: &holder{Backend: fake.New(dir)}, temporal: c}
	t.Cleanup(func() {
		require.NoError(t, i.backend.Close())
		require.NoError(t, os.RemoveAll(dir))
	})
	i.Client = session.NewClient(session.ClientOptions{Temporal: c, Secret: []byte("secret"), UpdateSlots: 90, Tracer: traces.Tracer("client")})
	shared := worker.New(c, session.TaskQueue, worker.Options{StickyScheduleToStartTimeout: time.Second, WorkerStopTimeout: time.Second})
	workflows.Register(shared, o)
	activities.NewPlacement(i.backend.HostID(), i.Client).Register(shared)
	host := worker.New(c, activities.HostQueue(i.backend.HostID()), worker.Options{
		DisableWorkflowWorker: true, WorkerStopTimeout: time.Second,
		MaxHeartbeatThrottleInterval: activities.HeartbeatTimeout / 2, DefaultHeartbeatThrottleInterval: activities.HeartbeatTimeout / 2,
	})
	verbs := activities.NewHost(i.backend, slog.New(slog.DiscardHandler))
	verbs.Register(host)
	activities.NewNear(verbs, i.backend.HostID()).Register(shared)
	require.NoError(t, host.Start())
	t.Cleanup(host.Stop)
	require.NoError(t, shared.Start())
	t.Cleanup(shared.Stop)
	return i
}

// box is a session to call.
type box struct {
	*installation
	id string
}

func (i *installation) start(in session.StartSessionIn) box {
	i.t.Helper()
	out, _, err := session.Do(i.t.Context(), i.Client, session.StartSession, session.Call{Owner: owner}, in)
	require.NoError(i.t, err)
	require.Equal(i.t, session.StatusRunning, out.Status)
	return box{i, out.SessionID}
}

func try[In, Out any](b box, op session.Operation[In, Out], id string, in In) (Out, error) {
	out, _, err := session.Do(b.t.Context(), b.Client, op, session.Call{Owner: owner, SessionID: b.id, CallID: id}, in)
	return out, err
}

func do[In, Out any](b box, op session.Operation[In, Out], id string, in In) Out {
	b.t.Helper()
	out, err := try(b, op, id, in)
	require.NoError(b.t, err)
	return out
}

func requireCode(t *testing.T, code session.Code, err error) {
	t.Helper()
	require.Equal(t, code, session.CodeOf(err), "%v", err)
}

// record writes the histories of all runs of a workflow, numbered from the
// newest back.
func (i *installation) record(name, workflowID string) (runs int) {
	i.t.Helper()
	histories := i.histories(workflowID)
	for n, h := range histories {
		if *record {
			b, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(h)
			require.NoError(i.t, err)
			file := filepath.Join("..", "..", "workflows", "testdata", "histories", fmt.Sprintf("%s.%d.json", name, n))
			require.NoError(i.t, os.WriteFile(file, b, 0o600))
		}
	}
	return len(histories)
}

// histories are those of all runs of a workflow, the newest first.
func (i *installation) histories(workflowID string) (all []*historypb.History) {
	i.t.Helper()
	for runID := ""; ; {
		iter := i.temporal.GetWorkflowHistory(i.t.Context(), workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		h := &historypb.History{}
		for iter.HasNext() {
			e, err := iter.Next()
			require.NoError(i.t, err)
			h.Events = append(h.Events, e)
		}
		all = append(all, h)
		runID = h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
		if runID == "" {
			return all
		}
	}
}
