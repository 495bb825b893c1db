package tools_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

const (
	stateless = mcp.ProtocolVersion20260728
	stateful  = "2025-11-25"
	owner     = "tester"
)

// revisions are the MCP revisions that every behaviour is tested on.
var revisions = []string{stateless, stateful}

// newHTTP serves as the real HTTP layer does: the owner and the marks for
// cancellation are in the context.
func newHTTP(t *testing.T, opts tools.Options, configure ...func(*http.Server)) *httptest.Server {
	t.Helper()
	srv := server.NewStreamableHTTPServer(tools.New(opts),
		server.WithStateful(true),
		server.WithHTTPContextFunc(func(ctx context.Context, r *http.Request) context.Context {
			return tools.WithOwner(tools.HTTPContext(ctx, r), owner)
		}))
	ts := httptest.NewUnstartedServer(srv)
	for _, f := range configure {
		f(ts.Config)
	}
	ts.Start()
	stopped := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		require.NoError(t, srv.Shutdown(stopped))
		ts.Close()
	})
	return ts
}

// dial connects an MCP client of the given revision over HTTP.
func dial(t *testing.T, ts *httptest.Server, revision string) *client.Client {
	t.Helper()
	tr, err := transport.NewStreamableHTTP(ts.URL, transport.WithHTTPBasicClient(ts.Client()))
	require.NoError(t, err)
	return start(t, client.NewClient(tr, client.WithProtocolVersion(revision)), revision)
}

// inProcess connects an MCP client without a transport.
func inProcess(t *testing.T, opts tools.Options) *client.Client {
	t.Helper()
	c, err := client.NewInProcessClient(tools.New(opts))
	require.NoError(t, err)
	return start(t, c, "")
}

func start(t *testing.T, c *client.Client, revision string) *client.Client {
	t.Helper()
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { _ = c.Close() })
	info, err := c.Initialize(t.Context(), mcp.InitializeRequest{Params: mcp.InitializeParams{ProtocolVersion: revision}})
	require.NoError(t, err)
	require.Equal(t, "mcp-sandbox", info.ServerInfo.Name)
	if revision != "" {
		require.Equal(t, revision, info.ProtocolVersion)
	}
	return c
}

// request is a tools/call with arguments as JSON text.
func request(tool, arguments string) mcp.CallToolRequest {
	return mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, RawArguments: json.RawMessage(arguments)}}
}

// call makes a call of an owner and gives the result, which it always has.
func call(t *testing.T, c *client.Client, req mcp.CallToolRequest) *mcp.CallToolResult {
	t.Helper()
	result, err := c.CallTool(tools.WithOwner(t.Context(), owner), req)
	require.NoError(t, err)
	return result
}

func text(t *testing.T, result *mcp.CallToolResult) string {
	t.Helper()
	require.Len(t, result.Content, 1)
	content, ok := result.Content[0].(mcp.TextContent)
	require.True(t, ok)
	return content.Text
}
