package harness

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
)

// Temporal connects to the embedded Temporal, as an operator with Temporal's own
// tools would.
func (s *Server) Temporal(t *testing.T) client.Client {
	t.Helper()
	o, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{
		ConfigFilePath: filepath.Join(s.DataDir, "temporal.toml"), ConfigFileProfile: envconfig.DefaultConfigFileProfile, DisableEnv: true,
	})
	require.NoError(t, err)
	o.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	c, err := client.DialContext(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}
