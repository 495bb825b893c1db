package httpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/internal/httpserver"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Revisions of MCP, the newest stateless one and the one before it.
const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// patience is how long a test waits for what should come at once.
const patience = 10 * time.Second

// byToken is an access.Authenticator: owner by token.
type byToken map[string]string

func (b byToken) Owner(token string) (string, bool) {
	owner, ok := b[token]
	return owner, ok
}

// ended is how a call of the tool "wait" ended.
type ended struct {
	tag       string
	cause     error
	cancelled bool // in the eyes of package tools
}

// fixture is a Server on a real TCP port, with tools that a test steers.
type fixture struct {
	*httpserver.Server
	t       *testing.T
	url     string // without path
	client  *http.Client
	started chan string // tags of calls of "wait" that have begun
	ended   chan ended
	release chan struct{} // ends one call of "wait"
	hooks   *server.Hooks
	served  chan error
	cutOff  bool // the test wants Shutdown to fail
}

func newFixture(t *testing.T, change ...func(*httpserver.Options)) *fixture {
	t.Helper()
	f := &fixture{
		t: t, client: &http.Client{Transport: &http.Transport{}},
		started: make(chan string, 64), ended: make(chan ended, 64), release: make(chan struct{}),
		hooks: &server.Hooks{}, served: make(chan error, 1),
	}
	opts := httpserver.Options{
		MCP:    f.mcpServer(),
		Auth:   byToken{"token-a": "ana", "token-b": "bob"},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, c := range change {
		c(&opts)
	}
	var err error
	f.Server, err = httpserver.New(opts)
	require.NoError(t, err)
	l, err := httpserver.Listen(t.Context(), "127.0.0.1:0", false)
	require.NoError(t, err)
	f.url = "http://" + l.Addr().String()
	go func() { f.served <- f.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		f.client.CloseIdleConnections()
		err := f.Shutdown(context.Background())
		require.Equal(t, err, <-f.served)
		if !f.cutOff {
			require.NoError(t, err)
		}
	})
	return f
}

// mcpServer has "wait", which waits for release or the end of its context, and a
// list of tools that can change, so that it can be listened to.
func (f *fixture) mcpServer() *server.MCPServer {
	s := server.NewMCPServer("test", "1", server.WithToolCapabilities(true), server.WithHooks(f.hooks), server.WithRecovery())
	s.AddTool(mcp.NewTool("wait", mcp.WithString("tag")), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		tag := req.GetString("tag", "")
		f.started <- tag
		select {
		case <-f.release:
			return mcp.NewToolResultText("released"), nil
		case <-ctx.Done():
			f.ended <- ended{tag: tag, cause: context.Cause(ctx), cancelled: tools.CancelledByClient(ctx)}
			return mcp.NewToolResultText("ended: " + context.Cause(ctx).Error()), nil
		}
	})
	return s
}

// call describes one request.
type call struct {
	method   string // default POST
	path     string // default /mcp
	revision string // of MCP; "" sends no header
	token    string // default token-a; "-" sends none
	session  string // Mcp-Session-Id
	host     string
	header   map[string]string
	body     string
}

func (f *fixture) request(ctx context.Context, c call) *http.Request {
	f.t.Helper()
	if c.method == "" {
		c.method = http.MethodPost
	}
	if c.path == "" {
		c.path = "/mcp"
	}
	req, err := http.NewRequestWithContext(ctx, c.method, f.url+c.path, bytes.NewBufferString(c.body))
	require.NoError(f.t, err)
	req.Host = c.host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.revision != "" {
		req.Header.Set("Mcp-Protocol-Version", c.revision)
	}
	switch c.token {
	case "-":
	case "":
		req.Header.Set("Authorization", "Bearer token-a")
	default:
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	return req
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (f *fixture) do(c call) reply {
	f.t.Helper()
	r := f.send(f.request(f.t.Context(), c))
	require.NoError(f.t, r.err)
	return r
}

func (f *fixture) send(req *http.Request) reply {
	resp, err := f.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body), err}
}

// pending is a request under way.
type pending struct {
	abort context.CancelFunc // closes its connection
	reply chan reply
}

func (f *fixture) begin(c call) pending {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	f.t.Cleanup(cancel)
	p := pending{cancel, make(chan reply, 1)}
	req := f.request(ctx, c)
	go func() { p.reply <- f.send(req) }()
	return p
}

// initialize opens an MCP session and gives its ID.
func (f *fixture) initialize(token string) string {
	f.t.Helper()
	r := f.do(call{token: token, body: `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`})
	require.Equal(f.t, http.StatusOK, r.status, r.body)
	id := r.header.Get("Mcp-Session-Id")
	require.NotEmpty(f.t, id)
	return id
}

// message builds a JSON-RPC request of a revision; id nil makes a notification.
func message(t *testing.T, revision string, id any, method string, params map[string]any) string {
	t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	if revision == modern {
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion":    modern,
			"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "t", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		}
	}
	m := map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
	if id != nil {
		m["id"] = id
	}
	text, err := json.Marshal(m)
	require.NoError(t, err)
	return string(text)
}

// tool is a call of a tool with the request ID 1, with an MCP session if the revision has them.
func (f *fixture) tool(revision, token, session, name, tag string) call {
	f.t.Helper()
	c := call{
		revision: revision, token: token, session: session,
		body: message(f.t, revision, 1, "tools/call", map[string]any{"name": name, "arguments": map[string]any{"tag": tag}}),
	}
	if revision == modern {
		c.header = map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": name}
	}
	return c
}

// open gives the MCP session that a revision needs.
func (f *fixture) open(revision, token string) string {
	f.t.Helper()
	if revision == modern {
		return ""
	}
	return f.initialize(token)
}

// wait begins a call of "wait" with the request ID 1 and returns once it runs.
func (f *fixture) wait(revision, token, session, tag string) pending {
	f.t.Helper()
	p := f.begin(f.tool(revision, token, session, "wait", tag))
	require.Equal(f.t, tag, receive(f.t, f.started))
	return p
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.Fail(t, fmt.Sprintf("nothing came on %T", c))
		panic("unreachable")
	}
}

// listenerAddr is where f listens.
func (f *fixture) listenerAddr() string { return f.url[len("http://"):] }

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}
