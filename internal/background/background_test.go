package background_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/background"
	"github.com/mcp-sandbox/mcp-sandbox/internal/control"
	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
)

// The test binary is the server, too.
func TestMain(m *testing.M) {
	if dir := os.Getenv("BACKGROUND_TEST_DIR"); dir != "" {
		os.Exit(serve(dir, os.Getenv("BACKGROUND_TEST_VERSION")))
	}
	os.Exit(m.Run())
}

// serve is a server of a data dir without anything behind it. It ends by itself
// if nobody ends it.
func serve(dir, version string) int {
	fmt.Fprintln(os.Stderr, "first words")
	if version == "broken" {
		fmt.Fprintln(os.Stderr, "no engine")
		return 7
	}
	d, err := datadir.Open(dir, datadir.Options{Exclusive: true})
	if err != nil {
		return background.ExitInUse
	}
	defer func() { _ = d.Close() }()
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	defer end()
	s := control.NewServer(control.Options{
		Hello:    control.Hello{Version: version, PID: os.Getpid(), Background: os.Getenv("BACKGROUND_TEST_FOREGROUND") == ""},
		Shutdown: func(string) { end() }, Check: func(control.Attach) error { return nil },
		Stdio: func(context.Context, control.Attach, io.ReadWriteCloser) error { return nil },
		Session: func(context.Context, control.Attach) (control.SessionReply, error) {
			return control.SessionReply{}, nil
		},
	})
	l, err := control.Listen(dir)
	if err != nil {
		return 1
	}
	go func() { _ = s.Serve(l) }()
	<-ctx.Done()
	s.Shutdown(context.Background())
	return 0
}

func launcher(t *testing.T, dir, version string, env ...string) *background.Launcher {
	t.Helper()
	l := &background.Launcher{
		DataDir: dir, Self: background.Version{Number: version}, Within: 20 * time.Second, Logger: slog.New(slog.DiscardHandler),
		Command: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), append(env, "BACKGROUND_TEST_DIR="+dir, "BACKGROUND_TEST_VERSION="+version)...)
			return cmd
		},
	}
	t.Cleanup(func() { _, _, _ = l.Shutdown(context.Background(), "the test is over") })
	return l
}

func TestOneServerForAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	type outcome struct {
		h   control.Hello
		err error
	}
	outcomes := make(chan outcome)
	const clients = 4
	for range clients {
		l := launcher(t, dir, "v1.0.0")
		go func() {
			h, err := l.Ensure(t.Context())
			outcomes <- outcome{h, err}
		}()
	}
	pids := map[int]bool{}
	for range clients {
		o := <-outcomes
		require.NoError(t, o.err)
		pids[o.h.PID] = true
	}
	require.Len(t, pids, 1)
	info, err := os.Stat(filepath.Join(dir, background.LogFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	l := launcher(t, dir, "v1.0.0")
	h, ran, err := l.Shutdown(t.Context(), "test")
	require.NoError(t, err)
	require.True(t, ran)
	require.True(t, pids[h.PID])
	_, inUse, err := datadir.InUse(dir)
	require.NoError(t, err)
	require.False(t, inUse)
	_, ran, err = l.Shutdown(t.Context(), "test")
	require.NoError(t, err)
	require.False(t, ran)
}

func TestVersionRule(t *testing.T) {
	t.Run("in the background", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		first, err := launcher(t, dir, "v1.1.0").Ensure(t.Context())
		require.NoError(t, err)
		older, err := launcher(t, dir, "v1.0.9").Ensure(t.Context())
		require.NoError(t, err)
		require.Equal(t, first, older)
		newer, err := launcher(t, dir, "v1.2.0").Ensure(t.Context())
		require.NoError(t, err)
		require.Equal(t, "v1.2.0", newer.Version)
		require.NotEqual(t, first.PID, newer.PID)
	})
	t.Run("a person's", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		first, err := launcher(t, dir, "v1.1.0", "BACKGROUND_TEST_FOREGROUND=1").Ensure(t.Context())
		require.NoError(t, err)
		require.False(t, first.Background)
		newer, err := launcher(t, dir, "v1.2.0").Ensure(t.Context())
		require.NoError(t, err)
		require.Equal(t, first, newer)
	})
}

func TestFailedStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, background.LogFile), []byte(strings.Repeat("of before\n", 2<<20)), 0o600))
	_, err := launcher(t, dir, "broken").Ensure(t.Context())
	require.ErrorContains(t, err, "exit code 7")
	require.ErrorContains(t, err, "first words\nno engine")
	require.NotContains(t, err.Error(), "of before")
	require.FileExists(t, filepath.Join(dir, background.LogFile+".1"), "a large log is moved away")

	require.NoError(t, os.Chmod(dir, 0o755))
	_, err = launcher(t, dir, "v1").Ensure(t.Context())
	require.ErrorContains(t, err, "chmod 700")
}

// A data dir in use by what has no socket.
func TestInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, err := datadir.Open(dir, datadir.Options{Exclusive: true, Purpose: "an embedded Temporal"})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	l := launcher(t, dir, "v1.0.0")
	l.Within = 100 * time.Millisecond
	_, err = l.Ensure(t.Context())
	require.ErrorContains(t, err, "an embedded Temporal (pid")
	_, _, err = l.Shutdown(t.Context(), "test")
	require.ErrorContains(t, err, "an embedded Temporal (pid")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Ensure(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestNewer(t *testing.T) {
	const early, late = "2026-01-01T00:00:00Z", "2026-01-01T02:00:00+01:00"
	for _, row := range []struct{ newer, older background.Version }{
		{background.Version{Number: "v1.10.0"}, background.Version{Number: "v1.9.9"}},
		{background.Version{Number: "2.0.0"}, background.Version{Number: "v1.9.9", Build: late}},
		{background.Version{Number: "v1.0.0"}, background.Version{Number: "v1.0.0-rc.2"}},
		{background.Version{Number: "v1.0.0-rc.10"}, background.Version{Number: "v1.0.0-rc.9"}},
		{background.Version{Number: "v1.0.0-rc.1.x"}, background.Version{Number: "v1.0.0-rc.1"}},
		{background.Version{Number: "v1.0.0-beta"}, background.Version{Number: "v1.0.0-2"}},
		{background.Version{Number: "v1.0.0-4-gabcdef0"}, background.Version{Number: "v1.0.0"}},
		{background.Version{Number: "v1.0.0-10-gabcdef0-dirty"}, background.Version{Number: "v1.0.0-4-g1234567"}},
		{background.Version{Number: "v1.0.1"}, background.Version{Number: "v1.0.0-400-gabcdef0"}},
		{background.Version{Number: "v1.0.0-rc.1-3-gabcdef0"}, background.Version{Number: "v1.0.0-rc.1"}},
		{background.Version{Number: "5a86376", Build: late}, background.Version{Number: "6b86376", Build: early}},
		{background.Version{Number: "v1.0.0", Build: late}, background.Version{Number: "v1.0.0", Build: early}},
		{background.Version{Number: "v1.0.0", Build: late}, background.Version{Number: "dev", Build: early}},
	} {
		require.True(t, row.newer.Newer(row.older), "%v", row)
		require.False(t, row.older.Newer(row.newer), "%v", row)
	}
	for _, row := range [][2]background.Version{
		{{Number: "v1.0.0"}, {Number: "v1.0.0"}},
		{{Number: "v1.0.0+a"}, {Number: "v1.0.0+b"}},
		{{Number: "dev"}, {Number: "v1.0.0"}},
		{{Number: "5a86376", Build: late}, {Number: "6b86376"}},
	} {
		require.False(t, row[0].Newer(row[1]), "%v", row)
		require.False(t, row[1].Newer(row[0]), "%v", row)
	}
}
