package httpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/httpserver"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

func TestBothRevisionsOnOneEndpoint(t *testing.T) {
	f := newFixture(t)
	for _, revision := range []string{modern, legacy} {
		p := f.wait(revision, "token-a", f.open(revision, "token-a"), revision)
		f.release <- struct{}{}
		r := receive(t, p.reply)
		require.Equal(t, http.StatusOK, r.status)
		require.Contains(t, r.body, "released")
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r := f.do(call{method: method, revision: modern})
		require.Equal(t, http.StatusMethodNotAllowed, r.status)
	}
}

func TestBodyLimit(t *testing.T) {
	f := newFixture(t, func(o *httpserver.Options) { o.MaxBodyBytes = 1000 })
	for _, chunked := range []bool{false, true} {
		c := list(t)
		c.body += strings.Repeat(" ", 1000-len(c.body))
		require.Equal(t, http.StatusOK, f.do(c).status)
		c.body += " "
		req := f.request(t.Context(), c)
		if chunked {
			req.ContentLength = -1
		}
		r := f.send(req)
		require.NoError(t, r.err)
		require.Equal(t, http.StatusRequestEntityTooLarge, r.status)
		require.Contains(t, r.body, "over 1000 bytes")
		require.NotContains(t, r.body, `"id"`)
	}
	// Without a token not even the size is looked at.
	c := list(t)
	c.token, c.body = "-", strings.Repeat(" ", 2000)
	require.Equal(t, http.StatusUnauthorized, f.do(c).status)
}

func TestDefaultBodyLimitTakesALargeFile(t *testing.T) {
	f := newFixture(t)
	c := list(t)
	c.body = c.body[:len(c.body)-1] + `,"pad":"` + strings.Repeat("a", 3<<20) + `"}`
	require.Equal(t, http.StatusOK, f.do(c).status)
	c.body += strings.Repeat(" ", 64<<20)
	require.Equal(t, http.StatusRequestEntityTooLarge, f.do(c).status)
}

func TestMalformedMessages(t *testing.T) {
	f := newFixture(t)
	for _, body := range []string{"", "{", "[]", `"x"`, `[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`, `{"method":1}`} {
		r := f.do(call{body: body})
		require.Equal(t, http.StatusBadRequest, r.status, body)
		require.True(t, json.Valid([]byte(r.body)), r.body)
	}
}

func TestMadeUpMCPSessionIDs(t *testing.T) {
	f := newFixture(t)
	for _, id := range []string{"made-up", "mcp-session-7d444840-9dc0-11d1-b245-5ffdce74fad2"} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			r := f.do(call{method: method, revision: legacy, session: id, body: message(t, legacy, 1, "tools/list", nil)})
			require.Equal(t, http.StatusNotFound, r.status, method)
			require.Contains(t, r.body, "initialize")
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		r := f.do(call{method: method, revision: legacy, body: message(t, legacy, 1, "tools/list", nil)})
		require.Equal(t, http.StatusBadRequest, r.status, method)
	}
}

func TestMCPSessionIsItsOwnersAlone(t *testing.T) {
	f := newFixture(t)
	id := f.initialize("token-a")
	body := message(t, legacy, 1, "tools/list", nil)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		theirs := f.do(call{method: method, revision: legacy, token: "token-b", session: id, body: body})
		unknown := f.do(call{method: method, revision: legacy, token: "token-b", session: "x" + id[1:], body: body})
		require.Equal(t, http.StatusNotFound, theirs.status, method)
		require.Equal(t, unknown.body, theirs.body, "it looks like one that never was")
	}
	require.Equal(t, http.StatusOK, f.do(call{revision: legacy, session: id, body: body}).status)

	require.Equal(t, http.StatusOK, f.do(call{method: http.MethodDelete, revision: legacy, session: id}).status)
	require.Equal(t, http.StatusNotFound, f.do(call{revision: legacy, session: id, body: body}).status)
}

func TestMCPSessionDoesNotSurviveTheServer(t *testing.T) { // CASES.md C5
	first, second := newFixture(t), newFixture(t)
	id := first.initialize("token-a")
	r := second.do(call{revision: legacy, session: id, body: message(t, legacy, 1, "tools/list", nil)})
	require.Equal(t, http.StatusNotFound, r.status)
}

func TestInitializeFloodDoesNotLeakMCPSessions(t *testing.T) {
	var registered, unregistered atomic.Int64
	f := newFixture(t, func(o *httpserver.Options) { o.SessionIdleTTL = time.Second })
	f.hooks.AddOnRegisterSession(func(context.Context, server.ClientSession) { registered.Add(1) })
	f.hooks.AddOnUnregisterSession(func(context.Context, server.ClientSession) { unregistered.Add(1) })
	const flood = 200
	var last string
	for range flood {
		last = f.initialize("token-a")
	}
	require.Eventually(t, func() bool { return registered.Load() == flood && unregistered.Load() == flood },
		patience, 20*time.Millisecond)
	r := f.do(call{revision: legacy, session: last, body: message(t, legacy, 1, "tools/list", nil)})
	require.Equal(t, http.StatusNotFound, r.status)
}

func TestOpenStreamKeepsMCPSessionAlive(t *testing.T) {
	f := newFixture(t, func(o *httpserver.Options) { o.SessionIdleTTL = time.Second })
	swept := make(chan string, 2)
	f.hooks.AddOnUnregisterSession(func(_ context.Context, s server.ClientSession) { swept <- s.SessionID() })
	open, idle := f.initialize("token-a"), f.initialize("token-a")
	resp, err := f.client.Do(f.request(t.Context(), call{method: http.MethodGet, revision: legacy, session: open}))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, idle, receive(t, swept))
	r := f.do(call{revision: legacy, session: open, body: message(t, legacy, 1, "tools/list", nil)})
	require.Equal(t, http.StatusOK, r.status)
}

func TestShutdownRefusesNewCalls(t *testing.T) {
	f := newFixture(t)
	held := f.wait(modern, "token-a", "", "x")
	// A request whose body comes only when the server is shutting down.
	c := list(t)
	conn := dial(t, f.listenerAddr())
	_, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token-a\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(c.body))
	require.NoError(t, err)
	answers := bufio.NewReader(conn)
	first, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	require.NoError(t, first.Body.Close())
	require.Equal(t, http.StatusContinue, first.StatusCode)

	done := make(chan error, 1)
	go func() { done <- f.Shutdown(context.Background()) }()
	require.ErrorIs(t, receive(t, f.ended).cause, tools.ErrShuttingDown)
	_, err = conn.Write([]byte(c.body))
	require.NoError(t, err)
	resp, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `"id":1`)
	require.Contains(t, string(body), "did nothing")
	require.NoError(t, receive(t, done))
	require.NoError(t, receive(t, held.reply).err)
}

// recorder is a session.Caller that keeps the owners of its calls.
type recorder struct{ owners chan string }

func (r recorder) Invoke(_ context.Context, _ string, call session.Call, _, _ any) (session.Meta, error) {
	r.owners <- call.Owner
	return session.Meta{CallID: call.CallID}, nil
}

func TestOwnerReachesTheTools(t *testing.T) {
	owners := make(chan string, 1)
	f := newFixture(t, func(o *httpserver.Options) { o.MCP = tools.New(tools.Options{Caller: recorder{owners}}) })
	for token, owner := range map[string]string{"token-a": "ana", "token-b": "bob"} {
		for _, revision := range []string{modern, legacy} {
			c := f.tool(revision, token, f.open(revision, token), "list_sessions", "")
			c.body = strings.Replace(c.body, `"tag":""`, "", 1)
			r := f.do(c)
			require.Equal(t, http.StatusOK, r.status, r.body)
			require.Equal(t, owner, receive(t, owners), r.body)
		}
	}
}

func TestTraceHeaderReachesTheTools(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	got := make(chan string, 1)
	f := newFixture(t, func(o *httpserver.Options) {
		o.MCP.AddTool(mcp.NewTool("trace"), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			got <- req.Header.Get("Traceparent")
			return mcp.NewToolResultText("ok"), nil
		})
	})
	c := f.tool(modern, "token-a", "", "trace", "")
	c.header["traceparent"] = parent
	require.Equal(t, http.StatusOK, f.do(c).status)
	require.Equal(t, parent, receive(t, got))
}

func TestPanicIsAnswered(t *testing.T) {
	f := newFixture(t, func(o *httpserver.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery != "" {
				_, _ = w.Write([]byte("half"))
			}
			panic("secret detail")
		})
	})
	r := f.do(call{method: http.MethodGet, path: "/metrics"})
	require.Equal(t, http.StatusInternalServerError, r.status)
	require.NotContains(t, r.body, "secret")
	r = f.send(f.request(t.Context(), call{method: http.MethodGet, path: "/metrics?half"}))
	require.Error(t, r.err, "half an answer does not look whole")
	require.Equal(t, http.StatusOK, f.do(list(t)).status)
}
