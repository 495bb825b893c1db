package docker_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
)

// answers are what an engine said to /info and /version, cut down to what is
// read. debian-cgroup-v1 was recorded; the others follow the documentation,
// sources and bug reports of their makers.
func answers(t *testing.T, name string) (info system.Info, version types.Version) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "engines", name+".json"))
	require.NoError(t, err)
	both := struct {
		Info    *system.Info
		Version *types.Version
	}{&info, &version}
	require.NoError(t, json.Unmarshal(text, &both))
	return info, version
}

func TestClassify(t *testing.T) {
	for name, c := range map[string]struct {
		support docker.Support
		is      string
		says    []string // of limits, faults and remedies
	}{
		"debian-cgroup-v1":         {docker.Supported, "Docker Engine 20.10.24+dfsg1, cgroup v1", nil},
		"ubuntu-cgroup-v2":         {docker.Supported, "Docker Engine 28.5.2, cgroup v2", nil},
		"rootless-delegated":       {docker.Limited, "Docker Engine 28.5.2, rootless, cgroup v2", []string{"AppArmor", "nf_tables", "modprobe"}},
		"rootless-no-cpu":          {docker.Refused, "Docker Engine 28.5.2, rootless, cgroup v2", []string{"no CPU limit", "Delegate=cpu"}},
		"rootless-cgroup-v1":       {docker.Refused, "Docker Engine 20.10.5, rootless, cgroup v1", []string{"no memory limit", "no process limit", "cgroup v2"}},
		"rootless-without-systemd": {docker.Refused, "Docker Engine 28.5.2, rootless, cgroup v2", []string{"no memory limit", "no CPU limit", "no process limit", "Delegate"}},
		"userns-remap":             {docker.Limited, "Docker Engine 28.5.2, userns-remap, cgroup v2", []string{"name server", "--dns"}},
		"memory-controller-off":    {docker.Refused, "Docker Engine 28.5.2, cgroup v2", []string{"no memory limit", "kernel's command line"}},
		"desktop-mac":              {docker.Limited, "Docker Desktop with engine 28.3.2, cgroup v2", []string{"virtual machine", "Resources"}},
		"podman-rootless":          {docker.Refused, "Podman 4.9.3, rootless, cgroup v2", []string{"engine ID", "enable_icc", "DOCKER_HOST"}},
	} {
		t.Run(name, func(t *testing.T) {
			info, version := answers(t, name)
			p := docker.Classify(info, version, "")
			require.Equal(t, c.support, p.Support(), "%+v", p)
			require.Equal(t, c.is, p.String())
			var text strings.Builder
			for _, n := range append(p.Limits, p.Faults...) {
				text.WriteString(n.Text + "\n" + n.Remedy + "\n")
			}
			for _, part := range c.says {
				require.Contains(t, text.String(), part)
			}
			require.Equal(t, name == "desktop-mac", p.Builtin, "sandboxes ask for the engine's seccomp filter where it is not given")
		})
	}
	names, err := filepath.Glob(filepath.Join("testdata", "engines", "*.json"))
	require.NoError(t, err)
	require.Len(t, names, 10, "each recorded answer is looked at")
}

// An engine that must not be used is not, and says so before anything is made.
func TestPodmanIsRefused(t *testing.T) {
	info, version := answers(t, "podman-rootless")
	opts := pretended(t, map[string]any{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info") {
			_ = json.NewEncoder(w).Encode(info)
			return
		}
		_ = json.NewEncoder(w).Encode(version)
	}))
	t.Cleanup(server.Close)
	opts.Client, opts.Host = nil, docker.Host{Address: "tcp://" + server.Listener.Addr().String()}
	_, err := docker.New(t.Context(), opts)
	var refused *docker.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, docker.KindPodman, refused.Platform.Kind)
	require.ErrorContains(t, err, "docker context use")
}
