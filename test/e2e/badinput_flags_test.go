package e2e_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// Command lines and configurations that cannot be meant: exit code 2, and nothing
// is made.
func TestBadFlags(t *testing.T) {
	t.Parallel()
	write := func(mode os.FileMode, text string) string {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	hash := strings.Repeat("ab", 32)
	for name, row := range map[string]struct {
		args []string
		env  string
		says []string
	}{
		"unknown flag":               {args: []string{"--lisen", "x"}, says: []string{"--lisen", "--help"}},
		"stray argument":             {args: []string{"stray"}, says: []string{"stray"}},
		"no port":                    {args: []string{"--listen", "localhost"}, says: []string{"--listen", "HOST:PORT"}},
		"network without auth":       {args: []string{"--listen", "0.0.0.0:0", "--no-auth"}, says: []string{"--no-auth"}},
		"network without TLS":        {args: []string{"--listen", "0.0.0.0:0"}, says: []string{"--tls-cert", "--insecure-http"}},
		"no auth and a token file":   {args: []string{"--no-auth", "--auth-token-file", "x"}, says: []string{"--no-auth", "--auth-token-file"}},
		"certificate without key":    {args: []string{"--tls-cert", "x"}, says: []string{"--tls-key"}},
		"unknown toolset":            {args: []string{"--toolsets", "core,fun"}, says: []string{"fun", "files"}},
		"unknown network":            {args: []string{"--allow-network", "half"}, says: []string{"half", "none"}},
		"sessions below zero":        {args: []string{"--max-sessions", "-1"}, says: []string{"max-sessions"}},
		"DNS by name":                {args: []string{"--dns", "dns.example"}, says: []string{"--dns", "9.9.9.9"}},
		"everything denied":          {args: []string{"--deny-address", "0.0.0.0/0"}, says: []string{"--deny-address", "--allow-network"}},
		"unknown log level":          {args: []string{"--log-level", "loud"}, says: []string{"loud", "debug"}},
		"pids as text":               {args: []string{"--pids-limit", "many"}, says: []string{"pids-limit"}},
		"pids below zero":            {args: []string{"--pids-limit", "-5"}, says: []string{"pids-limit"}},
		"retention below zero":       {args: []string{"--snapshot-retention", "-1h"}, says: []string{"snapshot-retention"}},
		"image that is no reference": {args: []string{"--default-image", "Not An Image"}, says: []string{"default-image"}},
		"UI address":                 {args: []string{"--temporal-ui", "nowhere"}, says: []string{"temporal-ui"}},
		"Temporal's address":         {args: []string{"--temporal-listen", "nowhere"}, says: []string{"temporal-listen"}},
		"environment":                {env: "MCP_SANDBOX_PIDS_LIMIT=many", says: []string{"MCP_SANDBOX_PIDS_LIMIT"}},
		"unknown key":                {args: []string{"--config", write(0o600, "lisen = 'x'\n")}, says: []string{"lisen"}},
		"no TOML":                    {args: []string{"--config", write(0o600, "listen: x\n")}, says: []string{"file"}},
		"wrong type":                 {args: []string{"--config", write(0o600, "pids-limit = 'many'\n")}, says: []string{"pids-limit"}},
		"no such config":             {args: []string{"--config", "/does/not/exist"}, says: []string{"/does/not/exist"}},
		"no such token file":         {args: []string{"--auth-token-file", "/does/not/exist"}, says: []string{"/does/not/exist"}},
		"line of a token file":       {args: []string{"--auth-token-file", write(0o600, "alice:"+hash+"\nmallory my-secret-token\n")}, says: []string{":2:", "token new"}},
		"token in clear":             {args: []string{"--auth-token-file", write(0o600, "alice:my-secret-token\n")}, says: []string{":1:", "SHA-256"}},
		"empty token file":           {args: []string{"--auth-token-file", write(0o600, "# nobody\n")}, says: []string{"token new"}},
		"writable token file":        {args: []string{"--auth-token-file", write(0o666, "alice:"+hash+"\n")}, says: []string{"chmod"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			env := []string{row.env}
			if row.env == "" {
				env = nil
			}
			refuses(t, 2, env, append([]string{"serve", "--data-dir", dir, "--temporal-ui", "off"}, row.args...), row.says...)
			require.NoFileExists(t, filepath.Join(dir, "temporal.db"), "refused before anything was started")
		})
	}
	t.Run("worker without Temporal", func(t *testing.T) {
		t.Parallel()
		refuses(t, 2, nil, []string{"worker", "--data-dir", t.TempDir()}, "--temporal-address")
	})
	t.Run("unknown command", func(t *testing.T) {
		t.Parallel()
		refuses(t, 2, nil, []string{"server"}, "server")
	})
}

// What the machine does not give: exit code 1, soon, with the remedy.
func TestMachineThatIsNotReady(t *testing.T) {
	t.Parallel()
	harness.Docker(t)
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	port := taken.Addr().String()
	serve := func(t *testing.T, more ...string) []string {
		t.Helper()
		return append([]string{"serve", "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0"}, more...)
	}
	ui := []string{"--temporal-ui", "off"}
	for name, row := range map[string]struct {
		args []string
		env  []string
		says []string
	}{
		"port for MCP":           {append(ui, "--listen", port), nil, []string{"--listen", "another program", "ss -ltnp"}},
		"port for the UI":        {[]string{"--temporal-ui", port}, nil, []string{"--temporal-ui", "another program"}},
		"port for Temporal":      {append(ui, "--temporal-listen", port), nil, []string{"address"}},
		"engine is down":         {ui, []string{"DOCKER_HOST=unix:///does/not/exist.sock"}, []string{"Docker"}},
		"engine does not speak":  {ui, []string{"DOCKER_HOST=tcp://" + port}, []string{"Docker"}},
		"runtime is unknown":     {append(ui, "--runtime", "no-such-runtime"), nil, []string{"no-such-runtime"}},
		"Temporal is not there":  {[]string{"--temporal-address", "127.0.0.1:9"}, nil, []string{"127.0.0.1:9", "TEMPORAL_"}},
		"certificate is missing": {append(ui, "--tls-cert", "/does/not/exist", "--tls-key", "/does/not/exist"), nil, []string{"/does/not/exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuses(t, 1, row.env, serve(t, row.args...), row.says...)
		})
	}
}
