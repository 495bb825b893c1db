package tools_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// C2: with a token at least every 10 s, increasing; without one none.
func TestProgress(t *testing.T) {
	slow := func(context.Context, string, session.Call, any, any) error {
		time.Sleep(42 * time.Second) // of the bubble's time
		return nil
	}
	for _, token := range []any{"token", 7.0, nil} {
		synctest.Test(t, func(t *testing.T) {
			c := inProcess(t, tools.Options{Caller: &caller{answer: slow}})
			began := time.Now()
			var values []float64
			c.OnNotification(func(n mcp.JSONRPCNotification) {
				require.Equal(t, "notifications/progress", n.Method)
				require.Equal(t, token, n.Params.AdditionalFields["progressToken"])
				value := n.Params.AdditionalFields["progress"].(float64)
				require.InDelta(t, time.Since(began).Seconds(), value, 0.001)
				values = append(values, value)
			})
			req := request("get_session", `{"session_id":"s_1"}`)
			if token != nil {
				req.Params.Meta = &mcp.Meta{ProgressToken: token}
			}
			require.False(t, call(t, c, req).IsError)
			synctest.Wait()
			if token == nil {
				require.Empty(t, values)
				return
			}
			require.Equal(t, []float64{5, 10, 15, 20, 25, 30, 35, 40}, values)
		})
	}
}

// A run_command tells what its command prints; other calls, and one without a
// token, do not look.
func TestProgressTellsTheLastLine(t *testing.T) {
	for name, row := range map[string]struct {
		tool, args string
		token      any
		follows    bool
	}{
		"a command":         {"run_command", `{"session_id":"s_1","command":"make"}`, "token", true},
		"without a token":   {"run_command", `{"session_id":"s_1","command":"make"}`, nil, false},
		"of something else": {"get_session", `{"session_id":"s_1"}`, "token", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := false
				slow := func(_ context.Context, _ string, c session.Call, _, _ any) error {
					asked = c.Progress
					time.Sleep(12 * time.Second)
					return nil
				}
				var looked []session.Call
				c := inProcess(t, tools.Options{Caller: &caller{answer: slow}, Progress: func(_ context.Context, c session.Call) string {
					looked = append(looked, c)
					if len(looked) == 1 {
						return ""
					}
					return "compiling"
				}})
				var messages []string
				c.OnNotification(func(n mcp.JSONRPCNotification) {
					messages = append(messages, n.Params.AdditionalFields["message"].(string))
				})
				req := request(row.tool, row.args)
				if row.token != nil {
					req.Params.Meta = &mcp.Meta{ProgressToken: row.token}
				}
				require.False(t, call(t, c, req).IsError)
				synctest.Wait()
				require.Equal(t, row.follows, asked, "the session is asked to tell")
				if !row.follows {
					require.Empty(t, looked)
					return
				}
				require.Equal(t, "s_1", looked[0].SessionID)
				require.NotEmpty(t, looked[0].CallID)
				require.Equal(t, []string{"run_command: waiting for 5s", "run_command: waiting for 10s; last output: compiling"}, messages)
			})
		})
	}
}

// Over HTTP the notifications come on the call's own stream, before its result.
func TestProgressOverHTTP(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			seen := make(chan float64, 100)
			release := make(chan struct{})
			fake := &caller{answer: func(context.Context, string, session.Call, any, any) error {
				<-release
				return nil
			}}
			c := dial(t, newHTTP(t, tools.Options{Caller: fake, ProgressEvery: time.Millisecond}), revision)
			c.OnNotification(func(n mcp.JSONRPCNotification) { seen <- n.Params.AdditionalFields["progress"].(float64) })
			req := request("get_session", `{"session_id":"s_1"}`)
			req.Params.Meta = &mcp.Meta{ProgressToken: "token"}
			done := make(chan *mcp.CallToolResult)
			go func() {
				result, err := c.CallTool(t.Context(), req)
				if err != nil {
					result = mcp.NewToolResultError(err.Error())
				}
				done <- result
			}()
			first, second := <-seen, <-seen
			require.Less(t, first, second)
			close(release)
			require.False(t, (<-done).IsError)
		})
	}
}
