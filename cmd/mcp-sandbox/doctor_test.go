package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
)

// examine runs the doctor against an engine that is not there.
func examine(t *testing.T, args ...string) (code int, found map[string]finding) {
	t.Helper()
	env := map[string]string{"DOCKER_HOST": "unix://" + filepath.Join(t.TempDir(), "none.sock")}
	code, stdout, _ := operate(t, env, append([]string{"doctor", "--json"}, args...)...)
	var r report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Equal(t, code == 0, r.OK)
	found = map[string]finding{}
	for _, f := range r.Checks {
		found[f.Check] = f
	}
	return code, found
}

func TestDoctorNamesRemedies(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	dir := filepath.Join(t.TempDir(), "data")

	code, found := examine(t, "--data-dir", dir, "--listen", taken.Addr().String(), "--temporal-ui", "127.0.0.1:0")
	require.Equal(t, 1, code)
	require.Equal(t, verdictFail, found["engine"].Status)
	require.Contains(t, found["engine"].Remedy, "DOCKER_HOST")
	require.Equal(t, verdictSkip, found["default image"].Status)
	require.Equal(t, verdictOK, found["data dir"].Status)
	require.Equal(t, verdictFail, found["MCP port"].Status)
	require.Contains(t, found["MCP port"].Remedy, "--listen")
	require.Equal(t, verdictOK, found["UI port"].Status)
	require.Equal(t, verdictSkip, found["server"].Status)
	require.Contains(t, found["server"].Remedy, "mcp-sandbox serve --data-dir "+dir)
	require.Equal(t, verdictSkip, found["temporal"].Status)
	require.NoDirExists(t, dir, "it makes nothing")
}

func TestDoctorLooksAtTheDataDir(t *testing.T) {
	open := t.TempDir()
	require.NoError(t, os.Chmod(open, 0o755))
	_, found := examine(t, "--data-dir", open)
	require.Equal(t, verdictFail, found["data dir"].Status)
	require.Equal(t, "chmod 700 "+open, found["data dir"].Remedy)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	f := (&doctor{dataDir: file}).checkFreshDataDir(finding{})
	require.Equal(t, verdictFail, f.Status)
	require.Contains(t, f.Detail, "no directory")

	damaged := t.TempDir()
	require.NoError(t, os.Chmod(damaged, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(damaged, "installation.json"), []byte("{}"), 0o600))
	_, found = examine(t, "--data-dir", damaged)
	require.Equal(t, verdictFail, found["data dir"].Status)
	require.Contains(t, found["data dir"].Detail, "damaged")
}

func TestPlatformFinding(t *testing.T) {
	f := platformFinding(docker.Platform{Kind: docker.KindEngine, Version: "28.5.2", Cgroup: "2"})
	require.Equal(t, finding{Check: "platform", Status: verdictOK, Detail: "Docker Engine 28.5.2, cgroup v2: supported"}, f)
	f = platformFinding(docker.Platform{Kind: docker.KindEngine, Rootless: true, Limits: []docker.Note{{Text: "less of this", Remedy: "more of that"}}})
	require.Equal(t, verdictWarn, f.Status)
	require.Contains(t, f.Detail, "limited; less of this")
	require.Equal(t, "more of that", f.Remedy)
}

func TestListensOn(t *testing.T) {
	for holder, want := range map[string]string{
		"a server, listening on 127.0.0.1:8765 (pid 7)": "127.0.0.1:8765",
		"a server, listening on [::]:8765 (pid 7)":      "[::1]:8765",
		"a server, listening on 0.0.0.0:80 (pid 7)":     "127.0.0.1:80",
		"an embedded Temporal (pid 7)":                  "",
		"another process":                               "",
	} {
		got, ok := listensOn(holder)
		require.Equal(t, want, got)
		require.Equal(t, want != "", ok)
	}
}
