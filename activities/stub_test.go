package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stubBackend answers as its fields say; what a test does not set panics.
type stubBackend struct {
	activities.Backend
	guest    guest.API
	guestErr error
	state    activities.SandboxState
	stateErr error
	err      error // of everything that changes something
	wait     bool  // those wait for the end of their context first
}

func (b *stubBackend) Guest(context.Context, activities.SandboxRef) (guest.API, error) {
	return b.guest, b.guestErr
}

func (b *stubBackend) State(context.Context, activities.SandboxRef) (activities.SandboxState, error) {
	return b.state, b.stateErr
}

func (b *stubBackend) do(ctx context.Context) error {
	if b.wait {
		<-ctx.Done()
		return ctx.Err()
	}
	return b.err
}

func (b *stubBackend) CreateSandbox(ctx context.Context, _ activities.SandboxSpec) (activities.Sandbox, error) {
	return activities.Sandbox{}, b.do(ctx)
}

func (b *stubBackend) ReviveSandbox(ctx context.Context, _ activities.SandboxRef) (activities.Sandbox, error) {
	return activities.Sandbox{}, b.do(ctx)
}

func (b *stubBackend) TakeSnapshot(ctx context.Context, _ activities.SnapshotSpec) (activities.SnapshotImage, error) {
	return activities.SnapshotImage{}, b.do(ctx)
}

func (b *stubBackend) RemoveSession(ctx context.Context, _ string) error { return b.do(ctx) }

// stubGuest answers as its fields say.
type stubGuest struct {
	guest.API
	run     guest.Command
	file    []guest.File // answers to ReadFile, one after the other
	refused bool
	err     error
	stopErr error
	wait    bool

	runs  []guest.RunRequest
	stops []guest.StopRequest
	reads []guest.ReadFileRequest
}

func (g *stubGuest) Run(ctx context.Context, req guest.RunRequest) (guest.Command, error) {
	g.runs = append(g.runs, req)
	if g.wait {
		<-ctx.Done()
		return guest.Command{}, ctx.Err()
	}
	return g.run, g.err
}

func (g *stubGuest) Refuse(context.Context, guest.RefuseRequest) (guest.RefuseResult, error) {
	return guest.RefuseResult{Refused: g.refused}, g.err
}

func (g *stubGuest) Stop(_ context.Context, req guest.StopRequest) (guest.Command, error) {
	g.stops = append(g.stops, req)
	return guest.Command{}, g.stopErr
}

func (g *stubGuest) ReadFile(_ context.Context, req guest.ReadFileRequest) (guest.File, error) {
	g.reads = append(g.reads, req)
	if g.err != nil {
		return guest.File{}, g.err
	}
	return g.file[len(g.reads)-1], nil
}

// perform runs an activity by its name.
func perform[Out any](t *testing.T, b activities.Backend, name string, in any, options ...func(*testsuite.TestActivityEnvironment)) (Out, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(10 * time.Second)
	activities.NewHost(b, nil).Register(env)
	for _, o := range options {
		o(env)
	}
	var out Out
	v, err := env.ExecuteActivity(name, in)
	if err == nil && v.HasValue() {
		require.NoError(t, v.Get(&out))
	}
	return out, err
}

func stopped() func(*testsuite.TestActivityEnvironment) {
	stop := make(chan struct{})
	close(stop)
	return func(env *testsuite.TestActivityEnvironment) { env.SetWorkerStopChannel(stop) }
}

func task[In any](in In) activities.Task[In] {
	return activities.Task[In]{
		Ref: activities.SandboxRef{SessionID: "s", Incarnation: 3, ContainerID: "c"}, CallID: "c_1", Digest: "d",
		In: in, MemoryMB: 2048,
	}
}

// requireFinal requires an error of this type that is not retried.
func requireFinal(t *testing.T, err error, failure string) {
	t.Helper()
	require.Equal(t, failure, session.FailureType(err), "%v", err)
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.True(t, app.NonRetryable())
}

func requireRetried(t *testing.T, err error) {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.False(t, app.NonRetryable(), "%v", err)
}
