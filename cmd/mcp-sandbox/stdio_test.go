package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/background"
	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
)

func TestStdioUsage(t *testing.T) {
	for args, want := range map[string]string{
		"stdio --session a/b":          "--session: session name \"a/b\"",
		"stdio extra":                  `takes no argument "extra"`,
		"serve --idle-exit -1s":        "--idle-exit: -1s is below 0",
		"stdio --config no/such.toml":  "configuration file: open no/such.toml",
		"shutdown --log-level loud":    "--log-level",
		"serve --idle-exit soon":       "invalid argument \"soon\"",
		"stdio --listen 127.0.0.1:80":  "unknown flag: --listen",
		"shutdown --session something": "unknown flag: --session",
	} {
		code, stdout, stderr := invoke(t, strings.Fields(args)...)
		require.Equal(t, 2, code, args)
		require.Contains(t, stderr, want)
		require.Empty(t, stdout)
	}
}

func TestShutdownWithoutAServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	code, stdout, stderr := invoke(t, "shutdown", "--data-dir", dir)
	require.Equal(t, 0, code, stderr)
	require.Equal(t, "no server runs on the data dir "+dir+"\n", stdout)
	require.NoDirExists(t, dir)

	d, err := datadir.Open(dir, datadir.Options{Exclusive: true, Purpose: "an embedded Temporal"})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	code, _, stderr = invoke(t, "shutdown", "--data-dir", dir)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "an embedded Temporal (pid")

	// How the one of two servers ends that was slower.
	code, _, stderr = invoke(t, "serve", "--background", "--data-dir", dir)
	require.Equal(t, background.ExitInUse, code)
	require.Contains(t, stderr, "already uses the data dir")
}

// A client that leaves before there is a server is none's failure.
func TestStdioEndsAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, err := datadir.Open(dir, datadir.Options{Exclusive: true}) // so that none is started
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), process{
		args: []string{"stdio", "--data-dir", dir}, getenv: getenv(t, nil), parent: func() int { return 1 },
		stdin: strings.NewReader("garbage\n"), stdout: &stdout, stderr: &stderr,
	})
	require.Equal(t, 0, code, stderr.String())
	require.JSONEq(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not a JSON-RPC message: want one JSON object on a line"}}`, stdout.String())
}

func TestWatchParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var parent, gone atomic.Int32
		parent.Store(7)
		go watchParent(t.Context(), func() int { return int(parent.Load()) }, func() { gone.Add(1) })
		time.Sleep(time.Minute)
		require.Zero(t, gone.Load())
		parent.Store(1)
		time.Sleep(parentEvery)
		synctest.Wait()
		require.EqualValues(t, 1, gone.Load())
	})
}

func TestIdleExitOfABackgroundServer(t *testing.T) {
	for args, want := range map[string]time.Duration{
		"": 0, "--idle-exit 1m": time.Minute, "--background": backgroundIdleExit, "--background --idle-exit 0": 0,
	} {
		var c socketConfig
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.flags(f)
		require.NoError(t, f.Parse(strings.Fields(args)))
		require.NoError(t, c.complete(f))
		require.Equal(t, want, c.idleExit, args)
	}
}
