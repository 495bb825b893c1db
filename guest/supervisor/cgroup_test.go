package supervisor_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// testdata holds the files of one container as a version 1 and a version 2
// engine show them.
func TestUsageFromCgroups(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		opts := options(t)
		opts.CgroupRoot = filepath.Join("testdata", version)
		s := start(t, opts)
		u, err := s.Usage(t.Context())
		require.NoError(t, err)
		require.Positive(t, u.DiskBytes)
		u.DiskBytes = 0
		require.Equal(t, guest.Usage{
			Running: []guest.CommandInfo{}, MemoryBytes: 1_234_567, MemoryLimitBytes: 64 << 20,
			CPUSeconds: 1.5, PIDs: 7, PIDsLimit: 100,
		}, u, version)
		require.NoError(t, s.Close())
	}
}

func TestNoLimits(t *testing.T) {
	opts := options(t)
	opts.CgroupRoot = t.TempDir()
	for name, content := range map[string]string{"cgroup.controllers": "", "memory.max": "max\n", "pids.max": "max\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(opts.CgroupRoot, name), []byte(content), 0o600))
	}
	u, err := start(t, opts).Usage(t.Context())
	require.NoError(t, err)
	require.Zero(t, u.MemoryLimitBytes)
	require.Zero(t, u.PIDsLimit)
}

// An OOM kill shows in the counter while a command runs (B13).
func TestOOMKilled(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		counter string
		killed  bool
	}{
		"killed by the kernel": {"echo ready; read x; kill -KILL $$", "oom_kill 4\n", true},
		"its child was":        {"echo ready; read x; exit 137", "oom_kill 4\n", true},
		"nobody else ran":      {"echo ready; read x; exit 0", "oom_kill 4\n", true},
		"somebody's own KILL":  {"echo ready; read x; kill -KILL $$", "oom_kill 3\n", false},
	} {
		opts := options(t)
		opts.CgroupRoot = t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(opts.CgroupRoot, "cgroup.controllers"), nil, 0o600))
		events := filepath.Join(opts.CgroupRoot, "memory.events")
		require.NoError(t, os.WriteFile(events, []byte("oom_kill 3\n"), 0o600))
		s := start(t, opts)
		cmd := ready(t, s, c.command)
		require.NoError(t, os.WriteFile(events, []byte(c.counter), 0o600))
		_, err := s.Input(t.Context(), guest.InputRequest{CallID: callID(), CommandID: cmd.CallID, Data: []byte("\n")})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return output(t, s, cmd.CallID, 6).Command.Status.Final() }, waitLimit, tick)
		require.Equal(t, c.killed, output(t, s, cmd.CallID, 6).Command.OOMKilled, name)
		require.NoError(t, s.Close())
	}
}
