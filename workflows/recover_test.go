package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

// Many calls notice a stopped container; it is started once, and the same call
// IDs go to it again.
func TestRevive(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, errGone)).Times(3)
	on(h, activities.ReviveSandbox, gives[activities.SandboxRef](sandbox(1), nil)).After(time.Second)
	answers := []*answer[session.RunCommandOut]{
		call(h, time.Second, session.RunCommand, "c_1", echo),
		call(h, time.Second, session.RunCommand, "c_2", echo),
		call(h, time.Second, session.RunCommand, "c_3", echo),
	}
	h.end(time.Minute)
	h.run()
	var notes []string
	for _, a := range answers {
		require.NoError(t, a.err)
		if a.out.Note != "" {
			notes = append(notes, a.out.Note)
		}
	}
	require.Len(t, notes, 1, "told once")
	require.Contains(t, notes[0], "was started again: files are kept")
	require.Equal(t, 1, h.count(activities.ReviveSandbox))
	require.Equal(t, 6, h.count(activities.RunCommand))
}

func TestRestoreAfterLoss(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, errGone)).Once()
	on(h, activities.ReviveSandbox, gives[activities.SandboxRef](activities.Sandbox{}, errGone))
	call(h, time.Second, session.TakeSnapshot, "c_snap", session.SnapshotIn{})
	a := call(h, time.Minute, session.RunCommand, "c_1", echo)
	b := call(h, 2*time.Minute, session.RunCommand, "c_2", echo)
	h.end(3 * time.Minute)
	h.run()
	require.NoError(t, a.err)
	require.Contains(t, a.out.Note, "snapshot "+snapshotID+" was restored")
	require.Empty(t, b.out.Note, "told once")
	require.Equal(t, 2, h.count(activities.CreateSandbox))
}

func TestLoss(t *testing.T) {
	for name, onLoss := range map[string]string{"no snapshot": session.OnLossRestore, "unwanted": session.OnLossFail} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, workflows.Options{})
			h.input.Start.OnLoss = onLoss
			if onLoss == session.OnLossFail {
				call(h, time.Second, session.TakeSnapshot, "c_snap", session.SnapshotIn{})
			}
			on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, errGone)).Once()
			on(h, activities.ReviveSandbox, gives[activities.SandboxRef](activities.Sandbox{}, errGone))
			a := call(h, time.Minute, session.RunCommand, "c_1", echo)
			b := call(h, 2*time.Minute, session.RunCommand, "c_2", echo)
			c := call(h, 3*time.Minute, session.GetSession, "c_3", session.GetSessionIn{})
			d := call(h, 4*time.Minute, session.RestoreSnapshot, "c_4", session.RestoreSnapshotIn{SnapshotID: snapshotID})
			e := call(h, 5*time.Minute, session.RunCommand, "c_5", echo)
			h.end(6 * time.Minute)
			h.run()
			require.Equal(t, session.Lost, a.code())
			require.Equal(t, session.Lost, b.code())
			require.Equal(t, session.StatusLost, c.out.Status)
			require.NoError(t, d.err, "a restore brings it back")
			require.NoError(t, e.err)
			if onLoss == session.OnLossFail {
				require.ErrorContains(t, a.err, "restore_snapshot "+snapshotID)
			}
		})
	}
}

// A sandbox that stops with each call is not started for ever.
func TestRecoveryIsBounded(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, errGone))
	a := call(h, time.Second, session.RunCommand, "c_1", echo)
	h.end(time.Minute)
	h.run()
	require.Equal(t, session.Unavailable, a.code())
	require.LessOrEqual(t, h.count(activities.ReviveSandbox), 6)
}

func TestGetSessionNoticesLoss(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.DescribeUsage, gives[activities.SandboxRef](activities.UsageReport{}, errGone))
	on(h, activities.ReviveSandbox, gives[activities.SandboxRef](activities.Sandbox{}, errGone))
	a := call(h, time.Second, session.GetSession, "c_1", session.GetSessionIn{})
	h.end(time.Minute)
	h.run()
	require.NoError(t, a.err)
	require.Equal(t, session.StatusLost, a.out.Status)
	require.Nil(t, a.out.Usage)
}
