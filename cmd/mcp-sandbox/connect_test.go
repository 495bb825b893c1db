package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
)

// Whoever has no server running is told so, and how to start one, in 3 s.
func TestNoServer(t *testing.T) {
	t.Parallel()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	closed := listen()
	require.NoError(t, closed.Close())
	stranger := listen() // takes connections and says nothing

	for name, address := range map[string]string{
		"never ran": "", "killed": closed.Addr().String(), "its port is someone else's": stranger.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if address != "" {
				require.NoError(t, temporaldev.WriteProfile(filepath.Join(dir, temporaldev.ProfileFile), address, "default", "secret"))
			}
			began := time.Now()
			// Temporal's own environment is for --temporal-address, as with serve.
			code, stdout, stderr := operate(t, map[string]string{"MCP_SANDBOX_DATA_DIR": dir}, "sessions", "list", "--json")
			require.Less(t, time.Since(began), 3*time.Second)
			require.Equal(t, 1, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, "no server runs on the data dir "+dir)
			require.Contains(t, stderr, "mcp-sandbox serve --data-dir "+dir)
		})
	}
	t.Run("no cluster", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		code, stdout, stderr := operate(t, nil, "snapshots", "list", "--temporal-address", stranger.Addr().String())
		require.Less(t, time.Since(began), 3*time.Second)
		require.Equal(t, 1, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "cannot use Temporal at "+stranger.Addr().String())
	})
}

func TestDamagedProfile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, temporaldev.ProfileFile), []byte("no toml ["), 0o600))
	code, _, stderr := operate(t, nil, "sessions", "list", "--data-dir", dir)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, filepath.Join(dir, temporaldev.ProfileFile))
	require.Contains(t, stderr, "restart the server")
}

// What cannot be is refused before anything is reached.
func TestOperatorUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"sessions nosuch":                        `has no command "nosuch"`,
		"sessions list extra":                    `takes no argument "extra"`,
		"sessions list --status paused":          `--status: "paused" is none of starting, running`,
		"sessions list --limit -1":               "--limit: -1 is below 0",
		"sessions list --owner a:b":              `--owner: owner "a:b"`,
		"sessions show":                          "takes one session ID",
		"sessions show s_1 s_2":                  "takes one session ID",
		"sessions end":                           "their IDs, or --all",
		"sessions end s_1 --all":                 "not both",
		"sessions end s_1 --owner alice":         "--owner goes with --all",
		"sessions end --owner alice":             "their IDs, or --all",
		"snapshots list --session snap_1":        `--session: "snap_1" is no session ID`,
		"snapshots delete":                       "by their IDs",
		"snapshots prune":                        "--older-than: say from which age on",
		"snapshots prune --older-than 30d":       `invalid argument "30d"`,
		"snapshots prune --older-than -1h":       "--older-than: -1h0m0s is below 0",
		"snapshots prune --older-than 1h snap_1": `takes no argument "snap_1"`,
		"token new":                              "takes one owner",
		"token new a b":                          "takes one owner",
		"token new a:b":                          `owner "a:b": a name is`,
		"doctor extra":                           `takes no argument "extra"`,
	} {
		t.Run(args, func(t *testing.T) {
			code, stdout, stderr := operate(t, nil, strings.Fields(args)...)
			require.Contains(t, stderr, want)
			require.Equal(t, 2, code)
			require.Empty(t, stdout)
		})
	}
}

// Nothing that ends or deletes may come from the environment.
func TestDestructiveFlagsAreSaidAloud(t *testing.T) {
	env := map[string]string{"MCP_SANDBOX_ALL": "true", "MCP_SANDBOX_OLDER_THAN": "0s"}
	for _, args := range []string{"sessions end", "snapshots prune"} {
		code, _, stderr := operate(t, env, strings.Fields(args)...)
		require.Equal(t, 2, code, stderr)
	}
}

// operate is invoke with environment variables.
func operate(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), process{args: args, getenv: getenv(t, env), stdout: &out, stderr: &errs})
	return code, out.String(), errs.String()
}
