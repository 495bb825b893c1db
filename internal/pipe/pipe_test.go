package pipe_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/internal/pipe"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server whose tool says what its context ended with.
type fixture struct {
	mcp    *server.MCPServer
	began  chan string // client's name of the call
	causes chan error
}

func newFixture() *fixture {
	f := &fixture{mcp: server.NewMCPServer("fixture", "1"), began: make(chan string, 10), causes: make(chan error, 10)}
	f.mcp.AddTool(mcp.NewTool("echo"), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(req.GetString("text", "")), nil
	})
	f.mcp.AddTool(mcp.NewTool("wait"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		f.began <- req.GetString("text", "")
		<-ctx.Done()
		f.causes <- context.Cause(ctx)
		return mcp.NewToolResultText("ended"), nil
	})
	f.mcp.AddTool(mcp.NewTool("progress"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 50 {
			err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": req.Params.Meta.ProgressToken, "progress": i,
			})
			if err != nil {
				return nil, err
			}
		}
		return mcp.NewToolResultText("done"), nil
	})
	f.mcp.AddTool(mcp.NewTool("panic"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		panic("a fault")
	})
	return f
}

// client is the other end of a connection.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
	done chan error
}

func connect(ctx context.Context, t *testing.T, f *fixture, change func(*pipe.Options)) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	opts := pipe.Options{MCP: f.mcp, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&opts)
	}
	c := &client{t: t, conn: ours, in: bufio.NewScanner(ours), done: make(chan error, 1)}
	c.in.Buffer(nil, 1<<20)
	go func() { c.done <- pipe.Serve(ctx, theirs, opts) }()
	t.Cleanup(func() { _ = ours.Close() })
	return c
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	_, err := fmt.Fprintf(c.conn, format+"\n", args...)
	require.NoError(c.t, err)
}

func (c *client) call(id, tool, text string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q},"_meta":{"progressToken":"t"}}}`, id, tool, text)
}

// message is the next line, which must be JSON-RPC.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Result  struct {
		Content []struct{ Text string }
		Version string `json:"protocolVersion"`
	} `json:"result"`
	Params struct{ Progress float64 } `json:"params"`
	Error  *struct {
		Code    int
		Message string
	} `json:"error"`
}

func (c *client) next() (m message) {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	require.True(c.t, c.in.Scan(), "%v", c.in.Err())
	require.NoError(c.t, json.Unmarshal(c.in.Bytes(), &m), c.in.Text())
	require.Equal(c.t, "2.0", m.JSONRPC)
	return m
}

func (c *client) initialize() {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	require.Equal(c.t, "2025-11-25", c.next().Result.Version)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (c *client) ended() {
	c.t.Helper()
	select {
	case err := <-c.done:
		require.NoError(c.t, err)
	case <-time.After(10 * time.Second):
		c.t.Fatal("Serve has not returned")
	}
}

func TestBothRevisions(t *testing.T) {
	f := newFixture()
	old, modern := connect(t.Context(), t, f, nil), connect(t.Context(), t, f, nil)
	old.initialize()
	old.call("9007199254740993", "echo", "old")
	m := old.next()
	require.Equal(t, "9007199254740993", string(m.ID), "an ID keeps its digits")
	require.Equal(t, "old", m.Result.Content[0].Text)
	modern.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo","arguments":{"text":"new"},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`)
	m = modern.next()
	require.Equal(t, `"x"`, string(m.ID))
	require.Equal(t, "new", m.Result.Content[0].Text)
	for _, c := range []*client{old, modern} {
		require.NoError(t, c.conn.Close())
		c.ended()
	}
}

// Each connection has its own progress, in order and before the result.
func TestProgress(t *testing.T) {
	f := newFixture()
	a, b := connect(t.Context(), t, f, nil), connect(t.Context(), t, f, nil)
	a.initialize()
	b.initialize()
	a.call("1", "progress", "")
	for i := range 50 {
		m := a.next()
		require.Equal(t, "notifications/progress", m.Method)
		require.InDelta(t, i, m.Params.Progress, 0)
	}
	require.Equal(t, "done", a.next().Result.Content[0].Text)
	b.call("1", "echo", "nothing of a's")
	require.Equal(t, "nothing of a's", b.next().Result.Content[0].Text)
	for _, c := range []*client{a, b} {
		require.NoError(t, c.conn.Close())
		c.ended()
	}
}

// What a request ends with, and which one.
func TestCauses(t *testing.T) {
	f := newFixture()
	ctx, shutdown := context.WithCancelCause(t.Context())
	a, b, c := connect(ctx, t, f, nil), connect(ctx, t, f, nil), connect(ctx, t, f, nil)
	a.call("1", "wait", "a1")
	require.Equal(t, "a1", <-f.began)
	a.call(`"1"`, "wait", "a2")
	require.Equal(t, "a2", <-f.began)
	b.call("1", "wait", "b")
	require.Equal(t, "b", <-f.began)

	a.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`)
	require.ErrorIs(t, <-f.causes, tools.ErrClientCancelled)
	require.Equal(t, `"1"`, string(a.next().ID), "neither the number 1 nor the other client's")

	// A cancel right behind its request is not too early.
	a.call("2", "wait", "a3")
	a.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	<-f.began
	require.ErrorIs(t, <-f.causes, tools.ErrClientCancelled)
	require.Equal(t, "2", string(a.next().ID))

	require.NoError(t, b.conn.Close())
	require.ErrorIs(t, <-f.causes, tools.ErrDisconnected)
	b.ended()

	c.call("1", "wait", "c")
	<-f.began
	shutdown(tools.ErrShuttingDown)
	require.ErrorIs(t, <-f.causes, tools.ErrShuttingDown)
	require.ErrorIs(t, <-f.causes, tools.ErrShuttingDown)
	require.False(t, a.in.Scan(), "no answer that would hide the true one: %s", a.in.Text())
	require.False(t, c.in.Scan(), c.in.Text())
	a.ended()
	c.ended()
}

func TestFaults(t *testing.T) {
	f := newFixture()
	c := connect(t.Context(), t, f, func(o *pipe.Options) { o.MaxLine, o.MaxRequests = 1000, 2 })
	for _, row := range []struct {
		line, id string
		code     int
	}{
		{"garbage", "null", -32700},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "null", -32700},
		{`{"jsonrpc":"2.0","id":3,"method":"no/such"}`, "3", -32601},
		{`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"panic"}}`, "4", -32603},
		{`{"jsonrpc":"2.0","method":"ping","params":"` + strings.Repeat("x", 2000) + `","id":5}`, "5", -32600},
		{`{"jsonrpc":"2.0","id":6,"result":{}}` + "\n" + `{"jsonrpc":"1.0","id":7,"method":"ping"}`, "7", -32600},
	} {
		c.send("%s", row.line)
		m := c.next()
		require.Equal(t, row.id, string(m.ID), row.line)
		require.NotNil(t, m.Error, row.line)
		require.Equal(t, row.code, m.Error.Code, m.Error.Message)
	}
	// Beyond the limit there is an answer, not a wait.
	c.call("10", "wait", "")
	c.call("11", "wait", "")
	<-f.began
	<-f.began
	c.call("12", "echo", "")
	m := c.next()
	require.Equal(t, "12", string(m.ID))
	require.Contains(t, m.Error.Message, "2 requests are in flight")
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":10}}`)
	require.Equal(t, "10", string(c.next().ID))
	<-f.causes
	c.call("13", "echo", "room again")
	require.Equal(t, "room again", c.next().Result.Content[0].Text)
	require.NoError(t, c.conn.Close())
	<-f.causes
	c.ended()
}

// A client that does not read holds up nothing but its own connection.
func TestClientThatDoesNotRead(t *testing.T) {
	f := newFixture()
	ctx, shutdown := context.WithCancelCause(t.Context())
	c := connect(ctx, t, f, nil)
	c.call("1", "echo", "unread")
	c.call("2", "wait", "")
	<-f.began
	shutdown(tools.ErrShuttingDown)
	<-f.causes
	c.ended()
}
