package workflows_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

func restoreOf(id string) session.RestoreSnapshotIn { return session.RestoreSnapshotIn{SnapshotID: id} }

func TestSnapshotAndRestore(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	a := call(h, time.Second, session.TakeSnapshot, "c_snap", session.SnapshotIn{Name: "before"})
	b := call(h, time.Minute, session.RestoreSnapshot, "c_restore", restoreOf(snapshotID))
	c := call(h, 2*time.Minute, session.RunCommand, "c_1", echo)
	h.end(3 * time.Minute)
	h.run()
	require.NoError(t, a.err)
	require.Equal(t, snapshotID, a.out.SnapshotID)
	require.Equal(t, []string{"/tmp"}, a.out.Excluded)
	require.NoError(t, b.err)
	require.Equal(t, session.StatusRunning, b.out.Status)
	require.NoError(t, c.err)
	require.Equal(t, 2, h.count(activities.CreateSandbox))
}

// A sandbox that was restored behind its user's back is not what a snapshot was
// asked of.
func TestSnapshotOfALostSandbox(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	call(h, time.Second, session.TakeSnapshot, "c_snap", session.SnapshotIn{})
	on(h, activities.TakeSnapshot, gives[activities.SnapshotSpec](activities.SnapshotImage{}, nil)).Once()
	on(h, activities.TakeSnapshot, gives[activities.SnapshotSpec](activities.SnapshotImage{}, errGone)).Once()
	on(h, activities.ReviveSandbox, gives[activities.SandboxRef](activities.Sandbox{}, errGone))
	a := call(h, time.Minute, session.TakeSnapshot, "c_snap2", session.SnapshotIn{})
	h.end(2 * time.Minute)
	h.run()
	require.Equal(t, session.FailedPrecondition, a.code())
	require.ErrorContains(t, a.err, "no snapshot was taken")
	require.ErrorContains(t, a.err, "was restored")
}

func TestSnapshotOfAStoppedSandbox(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.TakeSnapshot, gives[activities.SnapshotSpec](activities.SnapshotImage{}, errGone)).Once()
	a := call(h, time.Second, session.TakeSnapshot, "c_snap", session.SnapshotIn{})
	h.end(time.Minute)
	h.run()
	require.NoError(t, a.err)
	require.Equal(t, 1, h.count(activities.ReviveSandbox))
}

func TestSnapshotInNoTime(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.TakeSnapshot, gives[activities.SnapshotSpec](activities.SnapshotImage{}, timeout()))
	a := call(h, time.Second, session.TakeSnapshot, "c_snap", session.SnapshotIn{})
	h.run()
	require.Equal(t, session.Lost, a.code(), "%v", a.err)
}

func TestRestoreRefused(t *testing.T) {
	for name, row := range map[string]struct {
		prepare func(h *harness)
		code    session.Code
	}{
		"foreign": {func(h *harness) {
			on(h, activities.DescribeSnapshot, gives[activities.SnapshotQuery](session.SnapshotRecord{}, session.EncodeError(session.NoSnapshot(snapshotID))))
		}, session.NotFound},
		"on another host": {func(h *harness) {
			on(h, activities.DescribeSnapshot, gives[activities.SnapshotQuery](session.SnapshotRecord{Found: true, HostID: "h2"}, nil))
		}, session.FailedPrecondition},
		"no image": {func(h *harness) {
			on(h, activities.CheckSnapshot, gives[string](activities.SnapshotImage{}, session.EncodeError(session.NoSnapshot(snapshotID))))
		}, session.NotFound},
		"no room": {func(h *harness) {
			on(h, activities.CreateSandbox, gives[activities.SandboxSpec](sandbox(1), nil)).Once()
			on(h, activities.CreateSandbox, gives[activities.SandboxSpec](activities.Sandbox{}, session.EncodeError(session.Errorf(session.ResourceExhausted, "the disk is full"))))
		}, session.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, workflows.Options{})
			row.prepare(h)
			a := call(h, time.Second, session.RestoreSnapshot, "c_1", restoreOf(snapshotID))
			b := call(h, time.Minute, session.RunCommand, "c_2", echo)
			h.end(2 * time.Minute)
			h.run()
			require.Equal(t, row.code, a.code())
			require.NoError(t, b.err, "the sandbox is as before")
		})
	}
}

func TestRestoreFailsHalfWay(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.CreateSandbox, gives[activities.SandboxSpec](sandbox(1), nil)).Once()
	on(h, activities.CreateSandbox, gives[activities.SandboxSpec](activities.Sandbox{}, errors.New("engine is away"))).Times(1000)
	on(h, activities.ReviveSandbox, gives[activities.SandboxRef](activities.Sandbox{}, errGone))
	a := call(h, time.Second, session.RestoreSnapshot, "c_1", restoreOf(snapshotID))
	b := call(h, hour, session.RunCommand, "c_2", echo)
	h.input.Start.IdleTimeoutSeconds = 7200
	h.end(2 * hour)
	h.run()
	require.Equal(t, session.Lost, a.code())
	require.Equal(t, session.Lost, b.code())
	require.ErrorContains(t, b.err, "a restore failed half-way")
}

// A restore and a recovery do not make two sandboxes at once.
func TestRestoreWhileRecovering(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.CheckSnapshot, gives[string](activities.SnapshotImage{}, nil)).After(2 * time.Second)
	on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, errGone)).After(time.Second).Once()
	on(h, activities.ReviveSandbox, gives[activities.SandboxRef](sandbox(1), nil)).After(time.Minute)
	a := call(h, time.Second, session.RestoreSnapshot, "c_1", restoreOf(snapshotID))
	b := call(h, time.Second, session.RunCommand, "c_2", echo)
	h.end(time.Hour / 4)
	h.run()
	require.NoError(t, a.err)
	require.NoError(t, b.err)
	require.GreaterOrEqual(t, a.after, time.Minute, "it waited for the recovery")
}
