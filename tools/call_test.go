package tools_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

func TestCallOverHTTP(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			zero := 0
			fake := &caller{answer: gives(session.RunCommandOut{
				CommandID: "c_1", Status: "exited", ExitCode: &zero, Stdout: "hi\n", StdoutBytes: 3, Encoding: "utf-8", DurationMS: 12,
			})}
			c := dial(t, newHTTP(t, tools.Options{Caller: fake, Version: "1.2.3"}), revision)

			list, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
			require.NoError(t, err)
			require.Len(t, list.Tools, len(tools.Catalog()))

			req := request("run_command", `{"session_id":"s_1","command":"echo hi"}`)
			req.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{session.MetaCallID: "my-key"}}
			result := call(t, c, req)
			require.False(t, result.IsError)
			require.Equal(t, "hi\n[exit code 0, 0.0 s]", text(t, result))
			require.Equal(t, "my-key", result.Meta.AdditionalFields[session.MetaCallID])
			require.Equal(t, "session/s_1", result.Meta.AdditionalFields[session.MetaWorkflowID])
			require.Equal(t, "run", result.Meta.AdditionalFields[session.MetaRunID])
			structured, ok := result.StructuredContent.(map[string]any)
			require.True(t, ok)
			require.Equal(t, "hi\n", structured["stdout"])

			got := fake.invocations()
			require.Len(t, got, 1)
			require.Equal(t, session.Call{Owner: owner, SessionID: "s_1", CallID: "my-key"}, got[0].call)
			require.Equal(t, "echo hi", got[0].in.(session.RunCommandIn).Command)
			require.Equal(t, 32768, got[0].in.(session.RunCommandIn).MaxOutputBytes, "the default")

			result = call(t, c, request("run_command", `{"session_id":"s_1"}`))
			require.True(t, result.IsError)
			require.Nil(t, result.StructuredContent)
		})
	}
}

// What a call has waited before it got here comes off the time it has.
func TestPatience(t *testing.T) {
	for name, row := range map[string]struct {
		meta any
		want time.Duration
	}{
		"from here":       {nil, 55 * time.Second},
		"waited":          {20000, 35 * time.Second},
		"waited long":     {3e9, 15 * time.Second},
		"not a time":      {"soon", 55 * time.Second},
		"from the future": {-1e9, 55 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var left time.Duration
			fake := &caller{answer: func(ctx context.Context, _ string, _ session.Call, _, _ any) error {
				deadline, _ := ctx.Deadline()
				left = time.Until(deadline)
				return nil
			}}
			c := dial(t, newHTTP(t, tools.Options{Caller: fake}), revisions[0])
			req := request("run_command", `{"session_id":"s_1","command":"true"}`)
			if row.meta != nil {
				req.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{session.MetaWaitedMS: row.meta}}
			}
			call(t, c, req)
			require.InDelta(t, row.want.Seconds(), left.Seconds(), 5)
		})
	}
}

// Every code reaches the model as text, and programs in _meta; nothing is in
// structuredContent, which clients would check against the output schema.
func TestErrors(t *testing.T) {
	for _, code := range session.Codes() {
		t.Run(string(code), func(t *testing.T) {
			fake := &caller{answer: fails(session.Wrap(errors.New("secret"), code, "do this next"))}
			result := call(t, inProcess(t, tools.Options{Caller: fake, Logger: quiet()}), request("get_session", `{"session_id":"s_1"}`))
			require.True(t, result.IsError)
			require.Equal(t, string(code)+": do this next", text(t, result))
			require.Nil(t, result.StructuredContent)
			require.Equal(t, map[string]any{"code": string(code), "message": "do this next"}, result.Meta.AdditionalFields[session.MetaError])
			require.Regexp(t, `^c_[0-9a-f]{32}$`, result.Meta.AdditionalFields[session.MetaCallID])
			require.Equal(t, "run", result.Meta.AdditionalFields[session.MetaRunID])
		})
	}
}

// What is no *session.Error is a fault: the log has it, the model a number.
func TestFaultsAreHidden(t *testing.T) {
	const trace32 = "4bf92f3577b34da6a3ce929d0e0e4736"
	id, err := trace.TraceIDFromHex(trace32)
	require.NoError(t, err)
	for name, answer := range map[string]func(context.Context, string, session.Call, any, any) error{
		"error": fails(errors.New("secret")),
		"panic": func(context.Context, string, session.Call, any, any) error { panic("secret") },
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			c := inProcess(t, tools.Options{Caller: &caller{answer: answer}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			req := request("end_session", `{"session_id":"s_1"}`)

			result := call(t, c, req)
			require.True(t, result.IsError)
			require.Regexp(t, `^Internal: internal error, call ID c_[0-9a-f]{32}$`, text(t, result))
			require.Contains(t, log.String(), "secret")

			ctx := trace.ContextWithSpanContext(tools.WithOwner(t.Context(), owner),
				trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{1}}))
			result, err := c.CallTool(ctx, req)
			require.NoError(t, err)
			require.Equal(t, "Internal: internal error, trace ID "+trace32, text(t, result))
			require.Equal(t, trace32, result.Meta.AdditionalFields[session.MetaTraceID])
		})
	}
}

func TestNoOwnerNoCall(t *testing.T) {
	fake := &caller{}
	c := inProcess(t, tools.Options{Caller: fake, Logger: quiet()})
	result, err := c.CallTool(t.Context(), request("list_sessions", `{}`))
	require.NoError(t, err)
	require.Contains(t, text(t, result), "Internal: ")
	require.Empty(t, fake.invocations())
}

func TestCallIDs(t *testing.T) {
	for name, row := range map[string]struct {
		id   any
		want string
	}{
		"a number": {7, "must be a string"},
		"empty":    {"", "1 to 128 characters"},
		"a space":  {"a b", "1 to 128 characters"},
		"too long": {strings.Repeat("x", 129), "1 to 128 characters"},
		"longest":  {strings.Repeat("x", 128), ""},
		"null":     {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &caller{}
			req := request("list_sessions", `{}`)
			req.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{session.MetaCallID: row.id}}
			result := call(t, inProcess(t, tools.Options{Caller: fake}), req)
			if row.want == "" {
				require.False(t, result.IsError)
				require.Equal(t, fake.invocations()[0].call.CallID, result.Meta.AdditionalFields[session.MetaCallID])
				return
			}
			require.Contains(t, text(t, result), "InvalidArgument: ")
			require.Contains(t, text(t, result), row.want)
			require.Empty(t, fake.invocations())
			require.NotContains(t, result.Meta.AdditionalFields, session.MetaCallID)
		})
	}
}

func TestDefaultSession(t *testing.T) {
	fake := &caller{}
	c := inProcess(t, tools.Options{Caller: fake, DefaultSession: defaultSession("s_default")})
	for arguments, want := range map[string]string{
		`{}`: "s_default", `{"session_id":""}`: "s_default", `{"session_id":null}`: "s_default", `{"session_id":"s_2"}`: "s_2",
	} {
		require.False(t, call(t, c, request("get_session", arguments)).IsError)
		got := fake.invocations()
		require.Equal(t, want, got[len(got)-1].call.SessionID, arguments)
	}
	c = inProcess(t, tools.Options{Caller: fake, DefaultSession: func(context.Context, tools.DefaultUse) (tools.DefaultSession, error) {
		return tools.DefaultSession{}, session.Errorf(session.Unavailable, "try again")
	}})
	require.Equal(t, "Unavailable: try again", text(t, call(t, c, request("get_session", ``))))
}

// What a default session is asked for, and the line that names it.
func TestUseOfTheDefaultSession(t *testing.T) {
	var got tools.DefaultUse
	fake := &caller{}
	c := inProcess(t, tools.Options{Caller: fake, DefaultSession: func(_ context.Context, use tools.DefaultUse) (tools.DefaultSession, error) {
		got = use
		return tools.DefaultSession{SessionID: "s_default", Note: "[session_id s_default]"}, nil
	}})
	for _, row := range []struct {
		tool, arguments string
		meta            map[string]any
		want            tools.DefaultUse
	}{
		{"run_command", `{"command":"true"}`, nil, tools.DefaultUse{Starts: true}},
		{"write_file", `{"path":"f","content":""}`, map[string]any{session.MetaResent: true}, tools.DefaultUse{Starts: true, Resent: true}},
		{"end_session", `{}`, nil, tools.DefaultUse{}},
		{"get_session", `{}`, map[string]any{session.MetaResent: "true"}, tools.DefaultUse{}},
		{"read_output", `{"command_id":"c"}`, nil, tools.DefaultUse{}},
	} {
		req := request(row.tool, row.arguments)
		if row.meta != nil {
			req.Params.Meta = &mcp.Meta{AdditionalFields: row.meta}
		}
		result := call(t, c, req)
		require.False(t, result.IsError, row.tool)
		require.Equal(t, row.want, got, row.tool)
		require.Len(t, result.Content, 2, row.tool)
		require.Equal(t, mcp.NewTextContent("[session_id s_default]"), result.Content[1])
		require.Equal(t, "s_default", result.Meta.AdditionalFields[session.MetaSessionID])
	}
	fake.answer = fails(session.Errorf(session.Lost, "gone"))
	result := call(t, c, request("run_command", `{"command":"true"}`))
	require.True(t, result.IsError)
	require.Equal(t, []mcp.Content{mcp.NewTextContent("Lost: gone"), mcp.NewTextContent("[session_id s_default]")}, result.Content)
}

// list_snapshots has a session_id of its own, which filters.
func TestListSnapshotsFilter(t *testing.T) {
	fake := &caller{}
	c := inProcess(t, tools.Options{Caller: fake})
	result := call(t, c, request("list_snapshots", `{"session_id":"s_1"}`))
	require.Equal(t, "No snapshots.", text(t, result))
	require.Equal(t, map[string]any{"snapshots": []any{}}, result.StructuredContent, "null is no array")
	require.Equal(t, session.ListSnapshotsIn{SessionID: "s_1"}, fake.invocations()[0].in)
	require.Empty(t, fake.invocations()[0].call.SessionID)
}

// The server's own limit: an answer that did not come in time is not known.
func TestDeadline(t *testing.T) {
	fake := &caller{answer: fails(context.DeadlineExceeded)}
	req := request("list_sessions", `{}`)
	req.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{session.MetaCallID: "again"}}
	got := text(t, call(t, inProcess(t, tools.Options{Caller: fake}), req))
	require.Contains(t, got, "DeadlineExceeded: ")
	require.Contains(t, got, `"again"`)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
