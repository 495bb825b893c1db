package docker_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// pretended is an engine that only says what it can do.
func pretended(t *testing.T, change map[string]any) docker.Options {
	t.Helper()
	info := map[string]any{
		"ID": "id", "OSType": "linux", "Architecture": "x86_64", "MemoryLimit": true, "CpuCfsPeriod": true, "CpuCfsQuota": true,
		"PidsLimit": true, "SecurityOptions": []string{"name=apparmor", "name=seccomp,profile=builtin"},
	}
	maps.Copy(info, change)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		switch {
		case strings.HasSuffix(r.URL.Path, "/info"):
			_ = json.NewEncoder(w).Encode(info)
		case strings.HasSuffix(r.URL.Path, "/version"):
			_ = json.NewEncoder(w).Encode(map[string]any{"ApiVersion": "1.41"})
		}
	}))
	t.Cleanup(server.Close)
	api, err := client.NewClientWithOpts(client.WithHost("tcp://"+server.Listener.Addr().String()), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.Close() })
	return docker.Options{
		Client: api, InstallationID: "i", HostID: "h", Guest: func(string) ([]byte, error) { return []byte("guest"), nil },
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]any
		says   string
	}{
		"all there":      {nil, ""},
		"no memory":      {map[string]any{"MemoryLimit": false}, "memory limit"},
		"no cpu":         {map[string]any{"CpuCfsQuota": false}, "CPU limit"},
		"no pids":        {map[string]any{"PidsLimit": false}, "process limit"},
		"no seccomp":     {map[string]any{"SecurityOptions": []string{}}, "seccomp"},
		"seccomp is off": {map[string]any{"SecurityOptions": []string{"name=seccomp,profile=unconfined"}}, "seccomp"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := docker.New(t.Context(), pretended(t, c.change))
			require.NoError(t, err)
			defer func() { require.NoError(t, b.Close()) }()
			err = b.Check(t.Context())
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, session.FailedPrecondition, session.CodeOf(err))
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestEnginesRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]any
		says   string
	}{
		"windows": {map[string]any{"OSType": "windows"}, "windows containers"},
		"riscv":   {map[string]any{"Architecture": "riscv64"}, "amd64 or arm64"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := docker.New(t.Context(), pretended(t, c.change))
			require.ErrorContains(t, err, c.says)
		})
	}
	opts := pretended(t, nil)
	opts.Runtime = "runsc"
	b, err := docker.New(t.Context(), opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.ErrorContains(t, b.Check(t.Context()), `no runtime "runsc"`)
}
