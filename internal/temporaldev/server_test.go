package temporaldev_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowservicepb "go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
)

var status = temporal.NewSearchAttributeKeyKeyword("TestStatus")

// logs collects what a server logs.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func start(t *testing.T, opts temporaldev.Options) *temporaldev.Server {
	t.Helper()
	if opts.DataDir == "" {
		opts.DataDir = t.TempDir()
	}
	begin := time.Now()
	s, err := temporaldev.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Logf("started in %s", time.Since(begin).Round(time.Millisecond))
	t.Cleanup(s.Stop)
	return s
}

func dial(t *testing.T, s *temporaldev.Server) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), s.ClientOptions(nil))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestRestartKeepsWorkflows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a ? # %41 dir") // characters an SQLite URI takes for others
	out := &logs{}
	opts := temporaldev.Options{
		DataDir: dir, Logger: out.logger(),
		SearchAttributes: map[string]enumspb.IndexedValueType{status.GetName(): enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	}
	first := start(t, opts)
	c := dial(t, first)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "kept", TaskQueue: "nobody", TypedSearchAttributes: temporal.NewSearchAttributes(status.ValueSet("running")),
	}, "Nothing")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		n, err := c.CountWorkflow(t.Context(), &workflowservicepb.CountWorkflowExecutionsRequest{Query: "TestStatus = 'running'"})
		return err == nil && n.GetCount() == 1
	}, 5*time.Second, 10*time.Millisecond, "the search attribute is not found")
	c.Close()
	begin := time.Now()
	first.Stop()
	t.Logf("stopped in %s", time.Since(begin).Round(time.Millisecond))
	first.Stop()

	// A later version may know more attributes, and other settings.
	opts.Retention = 48 * time.Hour
	opts.SearchAttributes["TestOwner"] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	second := start(t, opts)
	require.Equal(t, first.Secret(), second.Secret())
	c = dial(t, second)
	got, err := c.DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, got.GetWorkflowExecutionInfo().GetStatus())
	n, err := c.CountWorkflow(t.Context(), &workflowservicepb.CountWorkflowExecutionsRequest{
		Query: "TestStatus = 'running' AND TestOwner IS NULL",
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, n.GetCount())
	ns, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservicepb.DescribeNamespaceRequest{Namespace: "default"})
	require.NoError(t, err)
	require.Equal(t, 48*time.Hour, ns.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration())
	second.Stop()
	require.Empty(t, out.String(), "a normal start and stop logs nothing")

	opts.SearchAttributes["TestOwner"] = enumspb.INDEXED_VALUE_TYPE_INT
	_, err = temporaldev.Start(t.Context(), opts)
	require.ErrorContains(t, err, "TestOwner is Keyword in this database and should be Int")
}

func TestTakenPortIsAClearError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = temporaldev.Start(t.Context(), temporaldev.Options{DataDir: t.TempDir(), Listen: l.Addr().String()})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, l.Addr().String())
}

func TestOptionsAreChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		opts temporaldev.Options
		want string
	}{
		"no data dir":     {temporaldev.Options{}, "no data dir"},
		"short retention": {temporaldev.Options{DataDir: t.TempDir(), Retention: time.Minute}, "the least is 1h0m0s"},
		"bad address":     {temporaldev.Options{DataDir: t.TempDir(), Listen: "nonsense"}, "listen address"},
		"attributes":      {temporaldev.Options{DataDir: t.TempDir(), SearchAttributes: fourInts()}, "cannot have more than 3"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := temporaldev.Start(t.Context(), tc.opts)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func fourInts() map[string]enumspb.IndexedValueType {
	out := map[string]enumspb.IndexedValueType{}
	for _, name := range []string{"A", "B", "C", "D"} {
		out[name] = enumspb.INDEXED_VALUE_TYPE_INT
	}
	return out
}

func TestStartIsBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := temporaldev.Start(ctx, temporaldev.Options{DataDir: t.TempDir()})
	require.ErrorIs(t, err, context.Canceled)
}
