package main

import (
	"bytes"
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// invoke runs a command line in an environment of its own. None of these tests
// starts the embedded Temporal.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), process{args: args, getenv: getenv(t, nil), stdout: &out, stderr: &errs})
	return code, out.String(), errs.String()
}

// getenv gives an environment with a home that is empty.
func getenv(t *testing.T, env map[string]string) func(string) string {
	t.Helper()
	all := map[string]string{"HOME": t.TempDir()}
	maps.Copy(all, env)
	return func(name string) string { return all[name] }
}

// A change of what users see shows in the diff of a golden file.
func TestHelpGoldens(t *testing.T) {
	want := map[string]bool{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		name := strings.Join(append([]string{"mcp-sandbox"}, path...), "-") + ".txt"
		want[name] = true
		t.Run(c.CommandPath(), func(t *testing.T) {
			code, stdout, stderr := invoke(t, append(path, "--help")...)
			require.Equal(t, 0, code)
			require.Empty(t, stderr)
			golden(t, filepath.Join("testdata", "help", name), stdout)
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(process{}))
	files, err := os.ReadDir(filepath.Join("testdata", "help"))
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, want[f.Name()], "testdata/help/%s belongs to no command", f.Name())
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "no golden file; go test ./cmd/mcp-sandbox -update writes it")
	require.Equal(t, string(want), got, "go test ./cmd/mcp-sandbox -update rewrites the golden file, and ./test/docs -update the README")
}

func TestVersion(t *testing.T) {
	code, stdout, stderr := invoke(t, "version")
	require.Equal(t, 0, code)
	require.Equal(t, "mcp-sandbox dev "+runtime.GOOS+"/"+runtime.GOARCH+" "+runtime.Version()+"\n", stdout)
	require.Empty(t, stderr)
}

// 2 is a fault of the command line or the configuration; the message names it
// and what to do.
func TestUsageErrors(t *testing.T) {
	const cluster = "127.0.0.1:1"
	for _, row := range []struct {
		args string
		want string
	}{
		{"nosuch", `mcp-sandbox has no command "nosuch"; mcp-sandbox --help lists them`},
		{"serv", `did you mean serve?`},
		{"image nosuch", `mcp-sandbox image has no command "nosuch"`},
		{"serve extra", `mcp-sandbox serve takes no argument "extra"`},
		{"image build extra", `takes no argument "extra"`},
		{"serve --nosuch", "unknown flag: --nosuch; mcp-sandbox serve --help lists the flags"},
		{"serve --pids-limit many", `invalid argument "many" for "--pids-limit"`},
		{"serve --log-level loud", `--log-level: "loud" is none of debug, info, warn, error`},

		{"serve --no-auth --auth-token-file f", "--no-auth and --auth-token-file exclude each other"},
		{"serve --tls-cert c", "--tls-cert and --tls-key go together"},
		{"serve --tls-key k", "--tls-cert and --tls-key go together"},
		{"serve --listen 0.0.0.0:0 --no-auth", "leave --no-auth off, or listen on 127.0.0.1"},
		{"serve --listen 0.0.0.0:0", "give --tls-cert and --tls-key"},
		{"serve --listen 8765", "write HOST:PORT"},
		{"serve --allow-network lan", `--allow-network: "lan" is neither none nor full`},
		{"serve --toolsets core,nosuch", `--toolsets: no toolset "nosuch"`},
		{"serve --auth-token-file no/such/file", "--auth-token-file: token file: open no/such/file"},

		{"serve --temporal-ui 0.0.0.0:8233", "--temporal-ui: 0.0.0.0:8233 is beyond loopback"},
		{"serve --temporal-listen 0.0.0.0:7233", "--temporal-listen: 0.0.0.0:7233 is beyond loopback"},
		{"temporal --temporal-listen 0.0.0.0:7233", "--temporal-listen: 0.0.0.0:7233 is beyond loopback"},
		{"serve --temporal-address " + cluster + " --temporal-listen 127.0.0.1:0", "--temporal-listen has no effect with --temporal-address"},
		{"serve --temporal-address " + cluster + " --temporal-ui 127.0.0.1:0", "--temporal-ui has no effect with --temporal-address"},
		{"serve --no-worker --runtime runsc", "--runtime has no effect with --no-worker"},
		{"serve --pids-limit 0", "--pids-limit: 0 is below 64"},
		{"serve --snapshot-retention 0s", "--snapshot-retention: 0s is below a second"},
		{"serve --no-worker --reap-every 1h", "--reap-every has no effect with --no-worker"},
		{"serve --reap-every 10ms", "--reap-every: 10ms is below a second; 0 is never"},
		{"worker", "--temporal-address: say which Temporal to work for"},
		{"worker --temporal-address " + cluster + " --pids-limit -1", "--pids-limit: -1 is below 64"},

		{"serve --config no/such.toml", "configuration file: open no/such.toml"},
	} {
		t.Run(row.args, func(t *testing.T) {
			code, stdout, stderr := invoke(t, strings.Fields(row.args)...)
			require.Contains(t, stderr, row.want)
			require.Equal(t, 2, code)
			require.Empty(t, stdout)
		})
	}
}

// 1 is what could not be done.
func TestFailures(t *testing.T) {
	t.Run("data dir in use", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		d, err := datadir.Open(dir, datadir.Options{Exclusive: true, Purpose: "a server, listening on 127.0.0.1:8765"})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		for _, command := range []string{"serve", "temporal"} {
			code, _, stderr := invoke(t, command, "--data-dir", dir)
			require.Equal(t, 1, code)
			require.Contains(t, stderr, "a server, listening on 127.0.0.1:8765 (pid ")
			require.Contains(t, stderr, "already uses the data dir "+dir+"; stop it, or give another --data-dir")
		}
	})
	t.Run("data dir open to others", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o755))
		code, _, stderr := invoke(t, "serve", "--data-dir", dir)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "run: chmod 700 "+dir)
	})
	t.Run("Temporal is not there", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it would wait some seconds for it
		var errs bytes.Buffer
		code := run(ctx, process{
			args:   []string{"worker", "--temporal-address", "127.0.0.1:1"},
			getenv: getenv(t, map[string]string{"MCP_SANDBOX_DATA_DIR": filepath.Join(t.TempDir(), "data")}), stdout: &errs, stderr: &errs,
		})
		require.Equal(t, 1, code)
		require.Contains(t, errs.String(), "cannot reach Temporal at 127.0.0.1:1 (is the address right")
	})
}
