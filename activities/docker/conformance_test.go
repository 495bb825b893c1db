package docker_test

import (
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/activities/backendtest"
	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		l := newLab(t)
		return backendtest.Harness{
			Backend:      l.Backend,
			UnknownImage: "127.0.0.1:9/no/such:image", // nothing listens there
			Stop: func(t *testing.T, ref activities.SandboxRef) {
				stopped, failed := l.api.ContainerWait(t.Context(), ref.ContainerID, container.WaitConditionNotRunning)
				require.NoError(t, l.api.ContainerKill(t.Context(), ref.ContainerID, "KILL"))
				select {
				case <-stopped:
				case err := <-failed:
					require.NoError(t, err)
				}
			},
			Reopen: func(t *testing.T) activities.Backend { return l.reopen(t) },
		}
	})
}

// reopen gives another Backend of the same installation.
func (l lab) reopen(tb testing.TB, change ...func(*docker.Options)) *docker.Backend {
	tb.Helper()
	opts := l.opts
	for _, c := range change {
		c(&opts)
	}
	b, err := docker.New(tb.Context(), opts)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, b.Close()) })
	return b
}
