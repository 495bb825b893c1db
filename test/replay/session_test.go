package replay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

func TestOperations(t *testing.T) {
	b := install(t, workflows.Options{}).start(session.StartSessionIn{Name: "operations"})
	run := do(b, session.RunCommand, "c_run", session.RunCommandIn{Command: "echo hi; exit 3"})
	require.Equal(t, "hi\n", run.Stdout)
	require.Equal(t, 3, *run.ExitCode)
	require.Equal(t, run, do(b, session.RunCommand, "c_run", session.RunCommandIn{Command: "echo hi; exit 3"}), "the same ID, the same answer")
	_, err := try(b, session.RunCommand, "c_run", session.RunCommandIn{Command: "other"})
	requireCode(t, session.InvalidArgument, err)
	_, err = try(b, session.ReadFile, "c_run", session.ReadFileIn{Path: "f"})
	requireCode(t, session.InvalidArgument, err)

	cat := do(b, session.RunCommand, "c_cat", session.RunCommandIn{Command: "cat", WaitSeconds: new(0)})
	require.Equal(t, session.CommandRunning, cat.Status)
	require.Len(t, do(b, session.GetSession, "", session.GetSessionIn{}).Commands, 1)
	require.Equal(t, 3, do(b, session.SendInput, "", session.SendInputIn{CommandID: "c_cat", Data: "abc", Close: true}).BytesWritten)
	require.Equal(t, "abc", do(b, session.ReadOutput, "", session.ReadOutputIn{CommandID: "c_cat", WaitSeconds: 5}).Data)
	do(b, session.RunCommand, "c_sleep", session.RunCommandIn{Command: "sleep 60", WaitSeconds: new(0)})
	require.Equal(t, session.CommandStopped, do(b, session.StopCommand, "", session.StopCommandIn{CommandID: "c_sleep"}).Status)

	do(b, session.WriteFile, "", session.WriteFileIn{Path: "f", Content: "one\n"})
	snap := do(b, session.TakeSnapshot, "c_snap", session.SnapshotIn{Name: "one"})
	require.Equal(t, snap, do(b, session.TakeSnapshot, "c_snap", session.SnapshotIn{Name: "one"}))
	do(b, session.EditFile, "", session.EditFileIn{Path: "f", OldStr: "one", NewStr: "two"})
	require.Equal(t, "two\n", do(b, session.ReadFile, "", session.ReadFileIn{Path: "f"}).Content)
	_, err = try(b, session.ReadFile, "c_missing", session.ReadFileIn{Path: "missing"})
	requireCode(t, session.NotFound, err)
	_, err = try(b, session.RunCommand, "c_missing", session.RunCommandIn{Command: "x"})
	requireCode(t, session.InvalidArgument, err) // an error, too, answers for its arguments alone
	do(b, session.RestoreSnapshot, "", session.RestoreSnapshotIn{SnapshotID: snap.SnapshotID})
	require.Equal(t, "one\n", do(b, session.ReadFile, "", session.ReadFileIn{Path: "f"}).Content)

	fork := b.installation.start(session.StartSessionIn{Name: "fork", SnapshotID: snap.SnapshotID})
	require.Equal(t, "one\n", do(fork, session.ReadFile, "", session.ReadFileIn{Path: "f"}).Content)
	do(fork, session.EndSession, "", session.EndSessionIn{})
	fork.record("fork", session.WorkflowIDPrefix+fork.id)

	for range 2 { // the second finds its workflow closed
		require.Equal(t, snap.SnapshotID, do(b, session.DeleteSnapshot, "c_delete", session.DeleteSnapshotIn{SnapshotID: snap.SnapshotID}).SnapshotID)
	}
	_, err = try(b, session.DeleteSnapshot, "", session.DeleteSnapshotIn{SnapshotID: snap.SnapshotID})
	requireCode(t, session.NotFound, err)
	b.record("snapshot", session.SnapshotWorkflowIDPrefix+snap.SnapshotID)

	require.Equal(t, session.StatusEnded, do(b, session.EndSession, "", session.EndSessionIn{}).Status)
	require.Equal(t, session.StatusEnded, do(b, session.EndSession, "", session.EndSessionIn{}).Status)
	_, err = try(b, session.RunCommand, "", session.RunCommandIn{Command: "x"})
	requireCode(t, session.FailedPrecondition, err)
	require.ErrorContains(t, err, "end_session was called")
	require.Equal(t, run, do(b, session.RunCommand, "c_run", session.RunCommandIn{Command: "echo hi; exit 3"}))
	require.Equal(t, session.StatusEnded, do(b, session.GetSession, "", session.GetSessionIn{}).Status)
	left, err := b.backend.Inventory(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
	b.record("operations", session.WorkflowIDPrefix+b.id)
}

// Calls go on over many runs, and nothing of the session is forgotten.
func TestContinuedAsNew(t *testing.T) {
	i := install(t, workflows.Options{EventsPerRun: 40})
	started := time.Now()
	b := i.start(session.StartSessionIn{Name: "continued"})
	slow := make(chan session.RunCommandOut)
	go func() {
		out, _ := try(b, session.RunCommand, "c_slow", session.RunCommandIn{Command: "echo x >> f; sleep 3; echo done"})
		slow <- out
	}()
	for range 20 {
		do(b, session.RunCommand, "", session.RunCommandIn{Command: "true"})
	}
	require.Equal(t, "done\n", (<-slow).Stdout)
	require.Equal(t, "x\n", do(b, session.ReadFile, "", session.ReadFileIn{Path: "f"}).Content, "once")
	d, err := b.temporal.DescribeWorkflow(t.Context(), session.WorkflowIDPrefix+b.id, "")
	require.NoError(t, err)
	for name, want := range map[string]string{session.AttrOwner: owner, session.AttrStatus: session.StatusRunning, session.AttrName: "continued"} {
		got, _ := d.TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(name))
		require.Equal(t, want, got, name)
	}
	var list session.ListSessionsOut
	require.Eventually(t, func() bool { // visibility lags
		list = do(b, session.ListSessions, "", session.ListSessionsIn{})
		return len(list.Sessions) == 1
	}, 10*time.Second, 20*time.Millisecond)
	require.WithinDuration(t, started, parseTime(t, list.Sessions[0].StartedAt), time.Second, "of the first run")
	began := time.Now()
	do(b, session.EndSession, "", session.EndSessionIn{})
	require.Less(t, time.Since(began), 10*time.Second)
	require.Greater(t, b.record("continued", session.WorkflowIDPrefix+b.id), 2)
}

func TestLoss(t *testing.T) {
	b := install(t, workflows.Options{}).start(session.StartSessionIn{Name: "loss"})
	ref := activities.SandboxRef{SessionID: b.id, Incarnation: 1}
	running, err := b.backend.Inventory(t.Context())
	require.NoError(t, err)
	for _, r := range running {
		if r.Kind == activities.KindContainer {
			ref.ContainerID = r.ID
		}
	}
	do(b, session.WriteFile, "", session.WriteFileIn{Path: "f", Content: "kept"})
	b.backend.Crash(ref)
	require.Contains(t, do(b, session.RunCommand, "", session.RunCommandIn{Command: "true"}).Note, "was started again")
	snap := do(b, session.TakeSnapshot, "", session.SnapshotIn{})
	b.backend.Remove(ref)
	require.Contains(t, do(b, session.RunCommand, "", session.RunCommandIn{Command: "true"}).Note, "was restored")
	require.Equal(t, "kept", do(b, session.ReadFile, "", session.ReadFileIn{Path: "f"}).Content)
	do(b, session.DeleteSnapshot, "", session.DeleteSnapshotIn{SnapshotID: snap.SnapshotID})
	do(b, session.EndSession, "", session.EndSessionIn{})
	b.record("loss", session.WorkflowIDPrefix+b.id)
}

func TestInterrupt(t *testing.T) {
	b := install(t, workflows.Options{}).start(session.StartSessionIn{Name: "interrupt"})
	require.NoError(t, b.Interrupt(t.Context(), session.Call{Owner: owner, SessionID: b.id, CallID: "c_later"}))
	_, err := try(b, session.RunCommand, "c_later", session.RunCommandIn{Command: "sleep 60", WaitSeconds: new(20)})
	if err != nil { // refused, else it was stopped
		requireCode(t, session.Unavailable, err)
	}
	do(b, session.RunCommand, "c_now", session.RunCommandIn{Command: "sleep 60", WaitSeconds: new(0)})
	require.NoError(t, b.Interrupt(t.Context(), session.Call{Owner: owner, SessionID: b.id, CallID: "c_now"}))
	out := do(b, session.ReadOutput, "", session.ReadOutputIn{CommandID: "c_now", WaitSeconds: 20})
	require.Equal(t, session.CommandStopped, out.Status)
	do(b, session.EndSession, "", session.EndSessionIn{})
	requireCode(t, session.NotFound, b.Interrupt(t.Context(), session.Call{Owner: owner, SessionID: b.id, CallID: "c_now"}))
	b.record("interrupt", session.WorkflowIDPrefix+b.id)
}

func TestStartFails(t *testing.T) {
	i := install(t, workflows.Options{})
	for range 2 { // the second finds its workflow closed
		_, meta, err := session.Do(t.Context(), i.Client, session.StartSession, session.Call{Owner: owner, CallID: "c_bad"},
			session.StartSessionIn{Image: "no/such:image"})
		require.Error(t, err)
		require.NotEqual(t, session.Internal, session.CodeOf(err), "%v", err)
		require.NotEmpty(t, meta.SessionID)
	}
	i.record("start-fails", session.WorkflowIDPrefix+session.MakeSessionID([]byte("secret"), owner, "c_bad"))
}

// A session terminated in Temporal's UI has ended: for its calls, for get_session
// and for end_session.
func TestTerminated(t *testing.T) {
	b := install(t, workflows.Options{}).start(session.StartSessionIn{Name: "terminated"})
	waiting := make(chan error)
	go func() {
		_, err := try(b, session.RunCommand, "", session.RunCommandIn{Command: "sleep 40"})
		waiting <- err
	}()
	require.Eventually(t, func() bool {
		return len(do(b, session.GetSession, "", session.GetSessionIn{}).Commands) == 1
	}, 10*time.Second, 50*time.Millisecond)
	require.NoError(t, b.temporal.TerminateWorkflow(t.Context(), session.WorkflowIDPrefix+b.id, "", "by an operator"))
	err := <-waiting
	requireCode(t, session.FailedPrecondition, err)
	require.ErrorContains(t, err, "terminated")
	_, err = try(b, session.RunCommand, "", session.RunCommandIn{Command: "x"})
	requireCode(t, session.FailedPrecondition, err)
	got := do(b, session.GetSession, "", session.GetSessionIn{})
	require.Equal(t, session.StatusEnded, got.Status)
	require.Equal(t, session.StatusEnded, do(b, session.EndSession, "", session.EndSessionIn{}).Status)
}

// A call that is asked to come again, to a run that then ends, learns of the end
// at once: the closed run repeats its answer for ever.
func TestEndWhileDraining(t *testing.T) {
	i := install(t, workflows.Options{EventsPerRun: 30})
	i.backend.hold = make(chan struct{})
	b := i.start(session.StartSessionIn{Name: "draining"})
	answers := make(chan error, 2)
	go func() {
		_, err := try(b, session.TakeSnapshot, "c_snap", session.SnapshotIn{})
		answers <- err
	}()
	go func() {
		_, err := try(b, session.RunCommand, "c_run", session.RunCommandIn{Command: "sleep 40"})
		answers <- err
	}()
	require.Eventually(t, func() bool { // until the run is long enough
		h := i.temporal.GetWorkflowHistory(t.Context(), session.WorkflowIDPrefix+b.id, "", false, 1)
		n := 0
		for ; h.HasNext(); n++ {
			_, _ = h.Next()
		}
		require.NoError(t, i.temporal.SignalWorkflow(t.Context(), session.WorkflowIDPrefix+b.id, "", session.SignalTouch, nil))
		return n > 50
	}, 20*time.Second, 20*time.Millisecond)
	began := time.Now()
	do(b, session.EndSession, "", session.EndSessionIn{})
	for range 2 {
		requireCode(t, session.FailedPrecondition, <-answers)
	}
	require.Less(t, time.Since(began), 20*time.Second)
	b.record("end-while-draining", session.WorkflowIDPrefix+b.id)
}

func parseTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at
}
