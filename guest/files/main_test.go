//go:build linux

package files_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
)

// serveAs makes the test binary a child like the supervisor's: it drops to the
// user ID in it and serves one request.
const serveAs = "FILES_TEST_SERVE_AS"

const sandboxUID = 1000

func TestMain(m *testing.M) {
	if uid := os.Getenv(serveAs); uid != "" {
		if err := serveDropped(uid); err != nil {
			panic(err)
		}
		syscall.Exit(0) // not os.Exit: the user cannot write coverage data
	}
	goleak.VerifyTestMain(m)
}

func serveDropped(uid string) error {
	n, err := strconv.Atoi(uid)
	if err != nil {
		return err
	}
	if os.Getuid() == 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(n), syscall.Setuid(n)); err != nil {
			return err
		}
	}
	syscall.Umask(0o077)
	return files.Serve(os.Stdin, os.Stdout)
}

// asUser carries out a request in a child with the sandbox user's identity.
// Started by another user than root, the tests have no root-owned files to try
// and the child keeps their identity.
func asUser(t *testing.T, req files.Request) files.Response {
	t.Helper()
	in, err := json.Marshal(req)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), serveAs+"="+strconv.Itoa(sandboxUID))
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var res files.Response
	require.NoError(t, json.Unmarshal(out, &res))
	return res
}

// userDir is a directory that belongs to the sandbox user and that it can reach.
func userDir(t *testing.T) string {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711))
	require.NoError(t, os.Chown(dir, sandboxUID, sandboxUID))
	return dir
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	const how = "needs root to give files to two users: run `sudo go test ./guest/files`"
	if os.Getenv("MCP_SANDBOX_REQUIRE") != "" {
		t.Fatal(how)
	}
	t.Skip(how)
}

// put makes a file with exactly this mode.
func put(t *testing.T, path, content string, mode os.FileMode) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

func get(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// fails requires a guest error of a code whose message has all the parts.
func fails(t *testing.T, err error, code guest.Code, parts ...string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, guest.CodeOf(err), "%v", err)
	for _, p := range parts {
		require.ErrorContains(t, err, p)
	}
}

// holds requires that a directory holds these names and nothing else.
func holds(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, names, got)
}
