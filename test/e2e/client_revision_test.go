package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// older connects a client of revision 2025-11-25, which has MCP sessions.
func older(t *testing.T, s *harness.Server) *client.Client {
	t.Helper()
	tr, err := transport.NewStreamableHTTP(s.URL, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + s.Token}))
	require.NoError(t, err)
	c := client.NewClient(tr, client.WithProtocolVersion("2025-11-25"))
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { _ = c.Close() })
	info, err := c.Initialize(t.Context(), mcp.InitializeRequest{Params: mcp.InitializeParams{ProtocolVersion: "2025-11-25"}})
	require.NoError(t, err)
	require.Equal(t, "2025-11-25", info.ProtocolVersion)
	return c
}

func toolCall(tool string, args harness.Args) mcp.CallToolRequest {
	return mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}}
}

func TestOlderRevision(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	c := older(t, s)
	list, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	require.NoError(t, err)
	require.Len(t, list.Tools, len(tools.Catalog()))

	started, err := c.CallTool(t.Context(), toolCall("start_session", harness.Args{}))
	require.NoError(t, err)
	require.False(t, started.IsError)
	id, _ := started.StructuredContent.(map[string]any)["session_id"].(string)

	failed, err := c.CallTool(t.Context(), toolCall("run_command", harness.Args{"session_id": id, "command": "true", "timeout_seconds": 100000}))
	require.NoError(t, err)
	require.True(t, failed.IsError)
	require.Nil(t, failed.StructuredContent)

	t.Run("A14 A5 a lost connection interrupts nothing", func(t *testing.T) {
		const callID = "lost-connection"
		req := toolCall("run_command", harness.Args{"session_id": id, "command": "echo begun; sleep 3; echo done; exit 7"})
		req.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{session.MetaCallID: callID}}
		ctx, cut := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		lost := older(t, s)
		go func() {
			_, err := lost.CallTool(ctx, req)
			gone <- err
		}()
		awaitOutput(t, s.Client(), id, callID, "begun\n")
		cut()
		require.Error(t, <-gone)

		began := time.Now()
		var r harness.Result
		require.Eventually(t, func() bool {
			r = s.Client().Call(t, "read_output", harness.Args{"session_id": id, "command_id": callID, "offset": 6, "wait_seconds": 10})
			return r.Structured["eof"] == true
		}, 20*time.Second, 10*time.Millisecond)
		require.Equal(t, "done\n", r.Str("data"))
		require.Equal(t, 7, r.Num("exit_code"), "after %s", time.Since(began))
	})
}

// A5 C3: on 2026-07-28 closing the stream is the cancellation: the command's
// tree is gone within 2 s, and other calls go on.
func TestStatelessCancel(t *testing.T) {
	t.Parallel()
	c := harness.Start(t).Client()
	id := c.StartSession(t, nil)
	other := c.Go(t, "other", "run_command", harness.Args{"session_id": id, "command": "sleep 4; echo undisturbed"})
	ctx, cut := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := c.Try(ctx, "cancelled", "run_command", harness.Args{"session_id": id, "command": "echo begun; sleep 300 & sleep 60; touch /tmp/x"})
		gone <- err
	}()
	awaitOutput(t, c, id, "cancelled", "begun\n")
	cut()
	require.Error(t, <-gone)
	began := time.Now()
	r := c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": "cancelled", "offset": 6, "wait_seconds": 10})
	require.Equal(t, "stopped", r.Str("status"))
	require.Less(t, time.Since(began), 5*time.Second)
	require.Equal(t, "0\n", c.Run(t, id, "pgrep -f 'sleep [36]0' | wc -l; test ! -e /tmp/x").Str("stdout"))
	answer, _ := other.Wait(t)
	require.Equal(t, "undisturbed\n", answer.Str("stdout"))
}
