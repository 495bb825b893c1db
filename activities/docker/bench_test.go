package docker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// BenchmarkLifecycle reports the median of each step, in milliseconds, with the
// derived image in place:
//
//	go test -run '^$' -bench Lifecycle -benchtime 20x ./activities/docker
func BenchmarkLifecycle(b *testing.B) {
	l := newLab(b)
	warm := spec()
	create(b, l.Backend, warm)
	require.NoError(b, l.RemoveSession(b.Context(), warm.SessionID))
	times := map[string][]time.Duration{}
	step := func(name string, f func()) {
		began := time.Now()
		f()
		times[name] = append(times[name], time.Since(began))
	}
	for b.Loop() {
		s := spec()
		var box activities.Sandbox
		var err error
		step("create", func() { box, err = l.CreateSandbox(b.Context(), s) })
		require.NoError(b, err)
		api, err := l.Guest(b.Context(), box.Ref)
		require.NoError(b, err)
		for range 10 {
			step("run", func() { sh(b, api, "true") })
		}
		var taken activities.SnapshotImage
		step("snapshot", func() { taken = snapshot(b, l.Backend, box.Ref) })
		s.Incarnation, s.SnapshotID, s.CallID = 2, taken.SnapshotID, session.NewCallID()
		step("restore", func() { _, err = l.CreateSandbox(b.Context(), s) })
		require.NoError(b, err)
		step("remove", func() { err = l.RemoveSession(b.Context(), s.SessionID) })
		require.NoError(b, err)
	}
	for name, all := range times {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-ms")
	}
}
