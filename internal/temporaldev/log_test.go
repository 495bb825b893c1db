package temporaldev_test

import (
	"log/slog"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/log/tag"

	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
)

// What the server calls fatal keeps its cause: by it Start sees that a port was
// taken and tries others.
func TestFatalKeepsItsCause(t *testing.T) {
	err := temporaldev.Fatal(slog.New(slog.DiscardHandler), "Failed to start gRPC listener", tag.Error(syscall.EADDRINUSE))
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "gRPC listener")
}
