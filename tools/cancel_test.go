package tools_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// withBase makes ctx the parent of every request's context.
func withBase(ctx context.Context) func(*http.Server) {
	return func(s *http.Server) { s.BaseContext = func(net.Listener) context.Context { return ctx } }
}

// waiting is a server whose calls wait until their context ends.
type waiting struct {
	opts        tools.Options
	started     chan session.Call // a call has begun
	causes      chan error        // a call's context has ended
	interrupted chan session.Call
}

func newWaiting() *waiting {
	w := &waiting{
		started:     make(chan session.Call, 1),
		causes:      make(chan error, 1),
		interrupted: make(chan session.Call, 1),
	}
	w.opts = tools.Options{
		Caller: &caller{answer: func(ctx context.Context, _ string, call session.Call, _, _ any) error {
			w.started <- call
			<-ctx.Done()
			w.causes <- context.Cause(ctx)
			return ctx.Err()
		}},
		Interrupt: func(ctx context.Context, call session.Call) error {
			_, bounded := ctx.Deadline()
			if ctx.Err() == nil && bounded {
				w.interrupted <- call
			}
			return nil
		},
	}
	return w
}

// requireInterrupt checks that the call that had started was interrupted.
func (w *waiting) requireInterrupt(t *testing.T, started session.Call) {
	t.Helper()
	require.Equal(t, started, <-w.interrupted)
}

const runCommand = `{"name":"run_command","arguments":{"session_id":"s_1","command":"sleep 60"}`

func TestClosedStreamIsCancelOnStateless(t *testing.T) {
	w := newWaiting()
	c := dial(t, newHTTP(t, w.opts), stateless)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, request("run_command", `{"session_id":"s_1","command":"sleep 60"}`))
		ended <- err
	}()
	started := <-w.started
	require.Empty(t, w.interrupted)
	cancel()
	require.Error(t, <-ended)
	require.ErrorIs(t, <-w.causes, tools.ErrClientCancelled)
	w.requireInterrupt(t, started)
}

func TestOnlyRunCommandIsInterrupted(t *testing.T) {
	w := newWaiting()
	c := dial(t, newHTTP(t, w.opts), stateless)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, request("snapshot", `{"session_id":"s_1"}`))
		ended <- err
	}()
	<-w.started
	cancel()
	require.Error(t, <-ended)
	require.ErrorIs(t, <-w.causes, tools.ErrClientCancelled)
	require.Empty(t, w.interrupted)
}

// mcp-go's key for a stateless request is its bare ID, so a notification there
// cancels any client's request. The HTTP layer drops it; should it ever come
// through, the command must live.
func TestStrayNotificationInterruptsNothing(t *testing.T) {
	w := newWaiting()
	mcpServer := tools.New(w.opts)
	answer := make(chan mcp.JSONRPCMessage, 1)
	ctx := tools.WithOwner(tools.HTTPContext(t.Context(), httptest.NewRequest(http.MethodPost, "/mcp", nil)), owner)
	go func() {
		answer <- mcpServer.HandleMessage(ctx, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+runCommand+`}}`))
	}()
	<-w.started
	mcpServer.HandleMessage(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	require.Equal(t, context.Canceled, <-w.causes)
	<-answer
	require.Empty(t, w.interrupted)
}

func TestNotificationIsCancelOnStateful(t *testing.T) {
	w := newWaiting()
	raw := newRaw(t, newHTTP(t, w.opts))
	answer := make(chan string, 1)
	go func() {
		answer <- raw.post(t.Context(), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":`+runCommand+`}}`)
	}()
	started := <-w.started
	raw.post(t.Context(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	require.Equal(t, context.Canceled, <-w.causes)
	w.requireInterrupt(t, started)
	require.Contains(t, <-answer, "Cancelled: ")
}

func TestLostConnectionIsNoCancelOnStateful(t *testing.T) {
	w := newWaiting()
	raw := newRaw(t, newHTTP(t, w.opts))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() {
		ended <- raw.post(ctx, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":`+runCommand+`}}`)
	}()
	<-w.started
	cancel()
	<-ended
	require.ErrorIs(t, <-w.causes, tools.ErrDisconnected)
	require.Empty(t, w.interrupted)
}

func TestShutdownIsNoCancel(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			w := newWaiting()
			base, shutDown := context.WithCancelCause(t.Context())
			c := dial(t, newHTTP(t, w.opts, withBase(base)), revision)
			ended := make(chan error, 1)
			go func() {
				_, err := c.CallTool(t.Context(), request("run_command", `{"session_id":"s_1","command":"sleep 60"}`))
				ended <- err
			}()
			<-w.started
			shutDown(tools.ErrShuttingDown)
			require.ErrorIs(t, <-w.causes, tools.ErrShuttingDown)
			<-ended
			require.Empty(t, w.interrupted)
		})
	}
}

// The recipe of StdioContext: end the context with a cause before Listen sees
// the end of stdin.
func TestStdio(t *testing.T) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + runCommand + `}}` + "\n"

	listen := func(t *testing.T, w *waiting) (stdin io.WriteCloser, done chan error) {
		t.Helper()
		ctx, cancel := context.WithCancelCause(tools.WithOwner(t.Context(), owner))
		reader, writer := io.Pipe()
		s := server.NewStdioServer(tools.New(w.opts))
		server.WithStdioContextFunc(tools.StdioContext)(s)
		done = make(chan error, 1)
		go func() { done <- s.Listen(ctx, endNotifier{reader, cancel}, io.Discard) }()
		_, err := io.WriteString(writer, hello)
		require.NoError(t, err)
		return writer, done
	}
	t.Run("notification", func(t *testing.T) {
		w := newWaiting()
		stdin, done := listen(t, w)
		started := <-w.started
		_, err := io.WriteString(stdin, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`+"\n")
		require.NoError(t, err)
		require.Equal(t, context.Canceled, <-w.causes)
		w.requireInterrupt(t, started)
		require.NoError(t, stdin.Close())
		<-done
	})
	t.Run("end of stdin", func(t *testing.T) {
		w := newWaiting()
		stdin, done := listen(t, w)
		<-w.started
		require.NoError(t, stdin.Close())
		require.ErrorIs(t, <-w.causes, tools.ErrDisconnected)
		<-done
		require.Empty(t, w.interrupted)
	})
}

// endNotifier cancels with ErrDisconnected before it reports the end.
type endNotifier struct {
	io.Reader
	cancel context.CancelCauseFunc
}

func (r endNotifier) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil {
		r.cancel(tools.ErrDisconnected)
	}
	return n, err
}

func TestCancelledByClient(t *testing.T) {
	cancelled := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	require.False(t, tools.CancelledByClient(t.Context()))
	require.True(t, tools.CancelledByClient(cancelled(tools.ErrClientCancelled)))
	require.False(t, tools.CancelledByClient(cancelled(tools.ErrDisconnected)))
	require.False(t, tools.CancelledByClient(cancelled(tools.ErrShuttingDown)))
	require.False(t, tools.CancelledByClient(cancelled(nil)), "nobody said why")
}

// raw is a client of 2025-11-25 that sends what it is told.
type raw struct {
	ts      *httptest.Server
	session string
}

func newRaw(t *testing.T, ts *httptest.Server) *raw {
	t.Helper()
	r := &raw{ts: ts}
	r.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	require.NotEmpty(t, r.session)
	return r
}

// post sends a message and gives the answer, or the error.
func (r *raw) post(ctx context.Context, message string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.ts.URL, strings.NewReader(message))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Session-Id", r.session)
	response, err := r.ts.Client().Do(req)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	if id := response.Header.Get("Mcp-Session-Id"); id != "" {
		r.session = id
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		return err.Error()
	}
	return body.String()
}
