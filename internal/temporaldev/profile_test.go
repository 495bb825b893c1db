package temporaldev_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	workflowservicepb "go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
)

func TestProfileConnectsOtherPrograms(t *testing.T) {
	s := start(t, temporaldev.Options{Namespace: "sandboxes"})
	path := filepath.Join(t.TempDir(), temporaldev.ProfileFile)
	require.NoError(t, os.WriteFile(path, []byte("an older one"), 0o644))
	require.NoError(t, temporaldev.WriteProfile(path, s.Address(), s.Namespace(), s.Secret()))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	t.Setenv("TEMPORAL_CONFIG_FILE", path)
	opts, err := envconfig.LoadDefaultClientOptions()
	require.NoError(t, err)
	require.Equal(t, "sandboxes", opts.Namespace)
	opts.Logger = s.ClientOptions(nil).Logger
	c, err := client.DialContext(t.Context(), opts)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.CountWorkflow(t.Context(), &workflowservicepb.CountWorkflowExecutionsRequest{Namespace: "sandboxes"})
	require.NoError(t, err)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
}
