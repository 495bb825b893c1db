package fake_test

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/activities/backendtest"
	"github.com/mcp-sandbox/mcp-sandbox/activities/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *fake.Backend {
	t.Helper()
	// Not t.TempDir: its name is too long for sockets.
	dir, err := os.MkdirTemp("", "fake") //nolint:usetesting // see above
	require.NoError(t, err)
	b := fake.New(dir)
	t.Cleanup(func() {
		require.NoError(t, b.Close())
		require.NoError(t, os.RemoveAll(dir))
	})
	return b
}

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		b := open(t)
		return backendtest.Harness{
			Backend:      b,
			UnknownImage: "no/such:image",
			Stop:         func(_ *testing.T, ref activities.SandboxRef) { b.Crash(ref) },
			// All its state is in the process: there is no other one.
			Reopen: func(*testing.T) activities.Backend { return b },
		}
	})
}

func TestFailNext(t *testing.T) {
	b := open(t)
	fault := errors.New("engine on fire")
	b.FailNext("Check", fault)
	require.ErrorIs(t, b.Check(t.Context()), fault)
	require.NoError(t, b.Check(t.Context()))
}
