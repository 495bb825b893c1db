package httpserver_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/httpserver"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

func TestClosedStreamCancelsOnStatelessRevision(t *testing.T) {
	f := newFixture(t)
	p := f.wait(modern, "token-a", "", "x")
	p.abort()
	got := receive(t, f.ended)
	require.ErrorIs(t, got.cause, tools.ErrClientCancelled)
	require.True(t, got.cancelled)
}

func TestLostConnectionIsNoCancelBefore20260728(t *testing.T) {
	f := newFixture(t)
	p := f.wait(legacy, "token-a", f.initialize("token-a"), "x")
	p.abort()
	got := receive(t, f.ended)
	require.ErrorIs(t, got.cause, tools.ErrDisconnected)
	require.False(t, got.cancelled)
}

// TestResetConnection ends the connection without a FIN, as a killed machine's
// peer sees it in the end.
func TestResetConnection(t *testing.T) {
	f := newFixture(t)
	conn := dial(t, f.listenerAddr())
	req := f.request(t.Context(), f.tool(modern, "token-a", "", "wait", "x"))
	require.NoError(t, req.Write(conn))
	require.Equal(t, "x", receive(t, f.started))
	require.NoError(t, conn.(interface{ SetLinger(int) error }).SetLinger(0))
	require.NoError(t, conn.Close())
	require.True(t, receive(t, f.ended).cancelled)
}

func TestCancelledNotificationCancelsOwnSessionsRequestOnly(t *testing.T) {
	f := newFixture(t)
	ana, bob := f.initialize("token-a"), f.initialize("token-b")
	pa := f.wait(legacy, "token-a", ana, "a")
	pb := f.wait(legacy, "token-b", bob, "b")

	cancel := message(t, legacy, nil, "notifications/cancelled", map[string]any{"requestId": 1})
	r := f.do(call{revision: legacy, token: "token-b", session: ana, body: cancel})
	require.Equal(t, http.StatusNotFound, r.status, "another owner's MCP session")
	r = f.do(call{revision: legacy, token: "token-a", session: ana, body: cancel})
	require.Equal(t, http.StatusAccepted, r.status)

	got := receive(t, f.ended)
	require.Equal(t, "a", got.tag)
	require.True(t, got.cancelled)
	require.Contains(t, receive(t, pa.reply).body, "ended: ")

	f.release <- struct{}{}
	require.Contains(t, receive(t, pb.reply).body, "released")
}

func TestCancelledNotificationOfAnotherClientIsDroppedOnStatelessRevision(t *testing.T) {
	f := newFixture(t)
	p := f.wait(modern, "token-a", "", "a")
	params := func() map[string]any { return map[string]any{"requestId": 1} }
	ownSession := f.initialize("token-b")

	for name, c := range map[string]struct {
		call   call
		status int
	}{
		"stateless": {call{
			revision: modern, token: "token-b", header: map[string]string{"Mcp-Method": "notifications/cancelled"},
			body: message(t, modern, nil, "notifications/cancelled", params()),
		}, http.StatusAccepted},
		"stateless, the key written otherwise": {call{
			revision: modern, token: "token-b", header: map[string]string{"Mcp-Method": "notifications/cancelled"},
			body: strings.Replace(message(t, modern, nil, "notifications/cancelled", params()), `"method"`, `"METHOD"`, 1),
		}, http.StatusAccepted},
		"header only": {call{
			revision: modern, token: "token-b", body: message(t, legacy, nil, "notifications/cancelled", params()),
		}, http.StatusAccepted},
		"body only": {call{
			revision: legacy, token: "token-b", session: ownSession, body: message(t, modern, nil, "notifications/cancelled", params()),
		}, http.StatusAccepted},
		"before 2026-07-28 without an MCP session": {call{
			revision: legacy, token: "token-b", body: message(t, legacy, nil, "notifications/cancelled", params()),
		}, http.StatusBadRequest},
		"before 2026-07-28 with a session of one's own": {call{
			revision: legacy, token: "token-b", session: ownSession, body: message(t, legacy, nil, "notifications/cancelled", params()),
		}, http.StatusAccepted},
	} {
		r := f.do(c.call)
		require.Equal(t, c.status, r.status, name+": "+r.body)
	}
	require.Empty(t, f.ended)
	f.release <- struct{}{}
	r := receive(t, p.reply)
	require.Contains(t, r.body, "released")
}

// shutdown ends the server, which must not take long.
func (f *fixture) shutdown() {
	f.t.Helper()
	start := time.Now()
	require.NoError(f.t, f.Shutdown(context.Background()))
	require.Less(f.t, time.Since(start), 3*time.Second)
}

func TestShutdownIsNoCancelAndTheCallStillAnswers(t *testing.T) {
	for _, revision := range []string{modern, legacy} {
		t.Run(revision, func(t *testing.T) {
			f := newFixture(t)
			p := f.wait(revision, "token-a", f.open(revision, "token-a"), "x")
			f.shutdown()
			got := receive(t, f.ended)
			require.ErrorIs(t, got.cause, tools.ErrShuttingDown)
			require.False(t, got.cancelled)
			r := receive(t, p.reply)
			require.NoError(t, r.err)
			require.Contains(t, r.body, "ended: the server is shutting down")
		})
	}
}

func TestShutdownWithHeldSubscriptionsListen(t *testing.T) {
	f := newFixture(t)
	resp, err := f.client.Do(f.request(t.Context(), call{
		revision: modern, header: map[string]string{"Mcp-Method": "subscriptions/listen"},
		body: message(t, modern, 1, "subscriptions/listen", map[string]any{"notifications": map[string]any{"toolsListChanged": true}}),
	}))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	first, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, first, "event: message")
	f.shutdown()
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err, "the stream ends in order")
}

func TestShutdownWithHeldGetStream(t *testing.T) {
	f := newFixture(t)
	resp, err := f.client.Do(f.request(t.Context(), call{method: http.MethodGet, revision: legacy, session: f.initialize("token-a")}))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	f.shutdown()
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
}

func TestShutdownIsBounded(t *testing.T) {
	f := newFixture(t)
	f.cutOff = true
	// A request whose body never comes: no context ends it.
	conn := dial(t, f.listenerAddr())
	_, err := io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token-a\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
	require.NoError(t, err)
	status, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, status, "100 Continue")

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, f.Shutdown(ctx), context.DeadlineExceeded)
}

func TestServeEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := httpserver.Listen(t.Context(), "127.0.0.1:0", false)
	require.NoError(t, err)
	second := make(chan error, 1)
	go func() { second <- f.Serve(ctx, l) }() // a second listener of the same server
	resp, err := f.client.Get("http://" + l.Addr().String() + "/healthz")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	cancel()
	require.NoError(t, receive(t, second))
	require.Error(t, f.send(f.request(t.Context(), call{method: http.MethodGet, path: "/healthz"})).err)
}
