package control_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/internal/control"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const connectionID = "0a0b0c0d-0000-4000-8000-000000000000"

type fixture struct {
	server *control.Server
	dir    string
	ended  chan string // reasons
	causes chan error
}

// serve serves a socket whose streams echo.
func serve(t *testing.T, dir string) *fixture {
	t.Helper()
	f := &fixture{dir: dir, ended: make(chan string, 1), causes: make(chan error, 10)}
	f.server = control.NewServer(control.Options{
		Hello:    control.Hello{Version: "v1.2.3", PID: os.Getpid(), Background: true},
		Shutdown: func(reason string) { f.ended <- reason },
		Check: func(a control.Attach) error {
			if a.ConnectionID == "" {
				return errors.New("no connection ID")
			}
			return nil
		},
		Stdio: func(ctx context.Context, a control.Attach, conn io.ReadWriteCloser) error {
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			_, _ = io.WriteString(conn, a.SessionName+"\n")
			_, _ = io.Copy(conn, conn)
			f.causes <- context.Cause(ctx)
			return conn.Close()
		},
		Session: func(_ context.Context, a control.Attach) (control.SessionReply, error) {
			if a.SessionName == "broken" {
				return control.SessionReply{}, session.Errorf(session.Unavailable, "no engine")
			}
			return control.SessionReply{SessionID: "s_1", Fresh: true}, nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	l, err := control.Listen(dir)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		f.server.Shutdown(ctx)
		require.NoError(t, <-served)
		require.NoFileExists(t, filepath.Join(dir, control.SocketFile))
	})
	return f
}

func TestRequests(t *testing.T) {
	f := serve(t, t.TempDir())
	c := control.NewClient(f.dir)
	h, err := c.Hello(t.Context())
	require.NoError(t, err)
	require.Equal(t, control.Hello{Protocol: control.Protocol, OldestProtocol: control.OldestProtocol, Version: "v1.2.3", PID: os.Getpid(), Background: true}, h)
	require.True(t, h.Speaks())

	got, err := c.Session(t.Context(), control.Attach{ConnectionID: connectionID})
	require.NoError(t, err)
	require.Equal(t, control.SessionReply{SessionID: "s_1", Fresh: true}, got)
	_, err = c.Session(t.Context(), control.Attach{ConnectionID: connectionID, SessionName: "broken"})
	require.Equal(t, session.Unavailable, session.CodeOf(err))
	_, err = c.Session(t.Context(), control.Attach{})
	require.ErrorContains(t, err, "no connection ID")

	require.NoError(t, c.Shutdown(t.Context(), "a test, said so"))
	require.Equal(t, "a test, said so", <-f.ended)
}

func TestStream(t *testing.T) {
	f := serve(t, t.TempDir())
	c := control.NewClient(f.dir)
	stream, err := c.Stdio(t.Context(), control.Attach{ConnectionID: connectionID, SessionName: "mine"})
	require.NoError(t, err)
	in := bufio.NewReader(stream)
	for _, want := range []string{"mine\n", strings.Repeat("x", 100_000) + "\n"} {
		if len(want) > 100 {
			_, err = io.WriteString(stream, want)
			require.NoError(t, err)
		}
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
	require.NoError(t, stream.Close())
	require.NoError(t, <-f.causes)

	_, err = c.Stdio(t.Context(), control.Attach{})
	require.ErrorContains(t, err, "no connection ID")

	stream, err = c.Stdio(t.Context(), control.Attach{ConnectionID: connectionID})
	require.NoError(t, err)
	f.server.Shutdown(t.Context())
	require.ErrorIs(t, <-f.causes, tools.ErrShuttingDown)
	_, err = io.ReadAll(stream)
	require.NoError(t, err)
	require.NoError(t, stream.Close())
	_, err = c.Hello(t.Context())
	require.True(t, control.NotRunning(err), "%v", err)
}

// The socket of a killed server is in nobody's way, and no data dir's path is too
// long for one.
func TestSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	c := control.NewClient(dir)
	_, err := c.Hello(t.Context())
	require.True(t, control.NotRunning(err), "%v", err)
	_, err = control.NewClient(filepath.Join(dir, "no", "dir")).Hello(t.Context())
	require.True(t, control.NotRunning(err), "%v", err)

	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	require.NoError(t, os.Rename(l.Addr().String(), filepath.Join(dir, control.SocketFile)))
	_, err = c.Hello(t.Context())
	require.True(t, control.NotRunning(err), "%v", err)

	f := serve(t, dir)
	_, err = c.Hello(t.Context())
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(f.dir, control.SocketFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestSpeaks(t *testing.T) {
	for _, row := range []struct {
		newest, oldest int
		want           bool
	}{{control.Protocol, control.OldestProtocol, true}, {control.Protocol + 3, control.Protocol, true}, {control.Protocol + 3, control.Protocol + 1, false}, {control.OldestProtocol - 1, 0, false}} {
		require.Equal(t, row.want, control.Hello{Protocol: row.newest, OldestProtocol: row.oldest}.Speaks(), fmt.Sprint(row))
	}
}

// A server is idle when for the whole time nothing used it and no session lives.
func TestAwaitIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a control.Activity
		var over atomic.Bool // no session lives any more
		var asked atomic.Int32
		live := func(context.Context) (bool, error) {
			if asked.Add(1) == 2 {
				return false, errors.New("not known")
			}
			return !over.Load(), nil
		}
		began := time.Now()
		done := a.Begin()
		idle := make(chan time.Duration, 1)
		go func() {
			require.NoError(t, a.AwaitIdle(t.Context(), 30*time.Second, live)) //nolint:testifylint // fails the test by idle's silence
			idle <- time.Since(began)
		}()
		time.Sleep(100 * time.Second) // one long call
		synctest.Wait()
		require.Zero(t, asked.Load())
		done()
		done()
		time.Sleep(20 * time.Second)
		a.Begin()() // a short one
		time.Sleep(100 * time.Second)
		over.Store(true)
		got := <-idle
		require.GreaterOrEqual(t, got, 220*time.Second)
		require.LessOrEqual(t, got, 280*time.Second)
		require.GreaterOrEqual(t, asked.Load(), int32(3))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, a.AwaitIdle(ctx, time.Hour, live), context.Canceled)
	})
}
