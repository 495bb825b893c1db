package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// settle gives the values of serve's flags as configure leaves them.
func settle(t *testing.T, env map[string]string, args ...string) (func(flag string) string, error) {
	t.Helper()
	p := process{getenv: getenv(t, env)}
	c, rest, err := newRoot(p).Find(append([]string{"serve"}, args...))
	require.NoError(t, err)
	require.NoError(t, c.ParseFlags(rest))
	err = configure(c, p)
	return func(flag string) string { return c.Flags().Lookup(flag).Value.String() }, err
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// A flag counts more than the environment, that more than the file, and that
// more than the default.
func TestPrecedence(t *testing.T) {
	for _, row := range []struct {
		key             string
		file, env, flag string // how each says it; "" is not at all
		want            string
	}{
		{key: "listen", want: "127.0.0.1:8765"},
		{key: "listen", file: `"127.0.0.1:1"`, want: "127.0.0.1:1"},
		{key: "listen", file: `"127.0.0.1:1"`, env: "127.0.0.1:2", want: "127.0.0.1:2"},
		{key: "listen", file: `"127.0.0.1:1"`, env: "127.0.0.1:2", flag: "127.0.0.1:3", want: "127.0.0.1:3"},
		{key: "listen", file: `"127.0.0.1:1"`, flag: "127.0.0.1:3", want: "127.0.0.1:3"},
		{key: "listen", env: "127.0.0.1:2", flag: "127.0.0.1:8765", want: "127.0.0.1:8765"}, // the default, said aloud

		{key: "no-worker", want: "false"},
		{key: "no-worker", file: "true", want: "true"},
		{key: "no-worker", file: "true", env: "false", want: "false"},
		{key: "pids-limit", file: "100", want: "100"},
		{key: "pids-limit", file: "100", env: "200", want: "200"},
		{key: "snapshot-retention", file: `"48h"`, want: "48h0m0s"},
		{key: "allow-network", want: "[none]"},
		{key: "allow-network", file: `["none", "full"]`, want: "[none,full]"},
		{key: "allow-network", file: `["none", "full"]`, env: "full", want: "[full]"},
		{key: "allow-network", env: "none,full", flag: "none", want: "[none]"},
		{key: "log-level", file: `"warn"`, env: "debug", want: "debug"},
	} {
		t.Run(strings.Join([]string{row.key, row.file, row.env, row.flag}, " "), func(t *testing.T) {
			env, args := map[string]string{}, []string{}
			if row.env != "" {
				env[envName(row.key)] = row.env
			}
			if row.file != "" {
				args = append(args, "--config", writeConfig(t, row.key+" = "+row.file+"\n"))
			}
			if row.flag != "" {
				args = append(args, "--"+row.key+"="+row.flag)
			}
			value, err := settle(t, env, args...)
			require.NoError(t, err)
			require.Equal(t, row.want, value(row.key))
		})
	}
}

// Without --config the file in the data dir is read, if there is one.
func TestConfigFileOfTheDataDir(t *testing.T) {
	file := writeConfig(t, `listen = "127.0.0.1:1"`)
	dir := filepath.Dir(file)
	for name, env := range map[string]map[string]string{
		"data dir by flag":        {},
		"data dir by environment": {"MCP_SANDBOX_DATA_DIR": dir},
		"file by environment":     {"MCP_SANDBOX_CONFIG": file},
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			if len(env) == 0 {
				args = []string{"--data-dir", dir}
			}
			value, err := settle(t, env, args...)
			require.NoError(t, err)
			require.Equal(t, "127.0.0.1:1", value("listen"))
		})
	}
	value, err := settle(t, nil, "--data-dir", t.TempDir())
	require.NoError(t, err)
	require.Equal(t, defaultListen, value("listen"))
}

func TestConfigFaults(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		env  map[string]string
		want string // FILE stands for the file's path
	}{
		"unknown key":        {text: "listne = 1", want: `FILE: unknown key "listne"; keys are the names of flags`},
		"table":              {text: "[serve]\nlisten = 1", want: `FILE: unknown key "serve"`},
		"wrong type":         {text: `no-worker = "perhaps"`, want: `FILE: key "no-worker": invalid argument "perhaps"`},
		"no TOML":            {text: "listen =", want: "FILE: toml:"},
		"environment":        {env: map[string]string{"MCP_SANDBOX_PIDS_LIMIT": "many"}, want: `MCP_SANDBOX_PIDS_LIMIT="many": invalid argument`},
		"duration, no unit":  {text: "snapshot-retention = 30", want: `FILE: key "snapshot-retention": invalid argument "30"`},
		"key of no one here": {text: "data_dir = '/x'", want: `FILE: unknown key "data_dir"`},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeConfig(t, row.text)
			_, err := settle(t, row.env, "--config", file)
			require.ErrorContains(t, err, strings.ReplaceAll(row.want, "FILE", file))
			require.Equal(t, 2, exitCode(err))
		})
	}
}

// One file serves all commands: a key that only another one knows is skipped.
func TestConfigFileIsShared(t *testing.T) {
	_, err := settle(t, nil, "--config", writeConfig(t, "packages = ['nodejs']\ntag = 'x'\n"))
	require.NoError(t, err)
}

// What a command does not use may stand in the environment or the file; only on
// its command line it is refused (TestUsageErrors).
func TestUselessSettingsElsewhereAreSkipped(t *testing.T) {
	p := process{getenv: getenv(t, map[string]string{"MCP_SANDBOX_RUNTIME": "runsc"})}
	c, rest, err := newRoot(p).Find([]string{"serve", "--no-worker"})
	require.NoError(t, err)
	require.NoError(t, c.ParseFlags(rest))
	set := given(c)
	require.NoError(t, configure(c, p))
	require.NoError(t, useless(set, "no-worker", "runtime"))
	require.Equal(t, "runsc", c.Flags().Lookup("runtime").Value.String())
}
