package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// A client that starts its servers from a configuration file: nothing runs
// before, and session_id is never given.
func TestStdioWithARealClient(t *testing.T) {
	t.Parallel()
	b := harness.NewBackground(t)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		tr := transport.NewStdio(harness.Binary(t), append(os.Environ(), b.Env...), "stdio", "--session", "r."+revision)
		c := client.NewClient(tr, client.WithProtocolVersion(revision))
		require.NoError(t, c.Start(t.Context()))
		info, err := c.Initialize(t.Context(), mcp.InitializeRequest{Params: mcp.InitializeParams{ProtocolVersion: revision}})
		require.NoError(t, err)
		require.Equal(t, revision, info.ProtocolVersion)
		list, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
		require.NoError(t, err)
		require.NotEmpty(t, list.Tools)
		for _, tool := range list.Tools {
			require.NotContains(t, tool.InputSchema.Required, "session_id", tool.Name)
		}
		call := func(tool string, args map[string]any) *mcp.CallToolResult {
			var res *mcp.CallToolResult
			require.Eventually(t, func() bool { // as a model would, while the session starts on a busy machine
				res, err = c.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}})
				return err != nil || !res.IsError || !strings.Contains(fmt.Sprint(res.Content), "is still starting; nothing was done yet")
			}, time.Minute, 10*time.Millisecond)
			require.NoError(t, err)
			require.False(t, res.IsError, "%v", res.Content)
			return res
		}
		first := call("write_file", map[string]any{"path": "f", "content": revision})
		id, _ := first.Meta.AdditionalFields[session.MetaSessionID].(string)
		require.Len(t, first.Content, 2)
		require.Contains(t, first.Content[1].(mcp.TextContent).Text, "session_id "+id, "the first result names the session")
		second := call("run_command", map[string]any{"command": "cat f"})
		require.Len(t, second.Content, 1)
		require.Contains(t, second.Content[0].(mcp.TextContent).Text, revision)
		require.NoError(t, c.Close())
	}
}

// --copy fills a session once, when it is new; what cannot be copied leaves no
// session behind that would look filled.
func TestStdioCopy(t *testing.T) {
	t.Parallel()
	b := harness.NewBackground(t)
	dir := filepath.Join(t.TempDir(), "project")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "src"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "src", "a.sh"), []byte("echo copied\n"), 0o755))

	one := b.Stdio("--session", "filled", "--copy", dir)
	r := one.Run(t, "./project/src/a.sh && rm project/src/a.sh")
	require.Equal(t, "copied\n", r.Str("stdout"), r.Text)
	one.Kill()
	two := b.Stdio("--session", "filled", "--copy", dir)
	again := two.Run(t, "ls project/src")
	require.Equal(t, r.Session(), again.Session())
	require.Empty(t, again.Str("stdout"), "a session that is there keeps what it has")
}

// Two clients at once, before any server runs: they share one, and each has its
// own session. One is killed: its session and its command go on, for whoever gives
// the name.
func TestStdioTwoClients(t *testing.T) {
	t.Parallel()
	b := harness.NewBackground(t)
	one, two := b.Stdio("--session", "work"), b.Stdio()
	first := one.Go(t, "run_command", harness.Args{"command": "echo alive > f; i=0; while true; do i=$((i+1)); echo $i; sleep 0.1; done", "wait_seconds": 0}, nil)
	other := two.Run(t, "ls")
	r, _ := first.Wait(t)
	require.False(t, r.IsError, r.Text)
	require.NotEqual(t, r.Session(), other.Session())
	require.Equal(t, 1, strings.Count(b.Log(), "MCP   "), "one server:\n%s", b.Log())
	require.Empty(t, other.Str("stdout"))

	one.Kill()
	three := b.Stdio("--session", "work")
	again := three.Run(t, "cat f")
	require.Equal(t, r.Session(), again.Session())
	require.Contains(t, again.Text, "session_id "+r.Session())
	require.Equal(t, "alive\n", again.Str("stdout"))
	var out harness.Result
	require.Eventually(t, func() bool {
		out = three.OK(t, "read_output", harness.Args{"command_id": r.Str("command_id")})
		return strings.HasPrefix(out.Str("data"), "1\n2\n")
	}, 10*time.Second, 50*time.Millisecond, "%s", out.Text)
	require.Equal(t, "running", out.Str("status"))

	// A fresh one after the end, for both that share it.
	require.Equal(t, r.Session(), three.OK(t, "end_session", nil).Str("session_id"))
	four := b.Stdio("--session", "work")
	fresh := four.Run(t, "ls")
	require.NotEqual(t, r.Session(), fresh.Session())
	require.Equal(t, fresh.Session(), three.Run(t, "true").Session())
	sessions, _ := two.OK(t, "list_sessions", nil).Structured["sessions"].([]any)
	require.Len(t, sessions, 2)
}

// The server ends in mid-command: the call is answered all the same, and was run
// once.
func TestStdioOutlivesItsServer(t *testing.T) {
	t.Parallel()
	b := harness.NewBackground(t)
	legacy := b.Stdio()
	got, err := legacy.Message("initialize", harness.Args{
		"protocolVersion": "2025-11-25", "capabilities": harness.Args{}, "clientInfo": harness.Args{"name": "t", "version": "1"},
	})
	require.NoError(t, err)
	require.Contains(t, string(<-got), `"2025-11-25"`)
	legacy.Line(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for name, end := range map[string]func(){"KILL": b.Kill, "TERM": b.Stop} {
		c := b.Stdio()
		// Runs once the command has begun: its session is the same by its ID.
		id := c.Run(t, "true").Session()
		calls := []*harness.Pending{
			c.Go(t, "run_command", harness.Args{"command": "echo x >> log; sleep 2; echo done; exit 3"}, nil),
			legacy.Go(t, "run_command", harness.Args{"session_id": id, "command": "echo y >> log; sleep 2; echo done; exit 3"}, nil),
		}
		c.Run(t, "until [ $(wc -l < log) = 2 ]; do sleep 0.02; done")
		pid := b.PID()
		end()
		for _, call := range calls {
			r, took := call.Wait(t)
			require.False(t, r.IsError, "%s: %s", name, r.Text)
			require.Equal(t, "exited", r.Str("status"), name)
			require.Equal(t, 3, r.Num("exit_code"), name)
			require.Equal(t, "done\n", r.Str("stdout"), name)
			t.Logf("%s: answered after %s", name, took)
		}
		require.NotEqual(t, pid, b.PID())
		require.Equal(t, "x\ny\n", c.Run(t, "sort log").Str("stdout"), "%s: each once", name)
		require.Equal(t, id, c.Run(t, "true").Session())
		require.Empty(t, c.Unasked(), name)
	}
	require.Empty(t, legacy.Unasked())
}

// C5 C12: ending the server ends no session, and a later client goes on. Nothing
// asks for a server in between, so that shutdown leaves none.
func TestStdioC12ServerRestarts(t *testing.T) {
	t.Parallel()
	b := harness.NewBackground(t)
	c := b.Stdio("--session", "kept")
	c.OK(t, "write_file", harness.Args{"path": "kept", "content": "here\n"})
	started := c.Run(t, "echo alive; exec sleep 600", harness.Args{"wait_seconds": 0})
	s := b.Server()
	container := s.Container(t, started.Session()).ID
	for name, end := range map[string]func(){
		"KILL": b.Kill, "TERM": b.Stop, "shutdown": func() { require.Contains(t, b.Shutdown(), "has ended") },
	} {
		end()
		require.Zero(t, b.PID(), name)
		require.True(t, s.Container(t, started.Session()).State.Running, name)
		for _, client := range []*harness.Stdio{c, b.Stdio("--session", "kept")} { // C5: the same client goes on, too
			require.Equal(t, "here\n", client.OK(t, "read_file", harness.Args{"path": "kept"}).Str("content"), name)
			r := client.OK(t, "read_output", harness.Args{"command_id": started.Str("command_id")})
			require.Equal(t, "alive\n", r.Str("data"), name)
			require.Equal(t, "running", r.Str("status"), name)
			require.Equal(t, started.Session(), r.Session(), name)
		}
		require.Equal(t, container, s.Container(t, started.Session()).ID, name)
	}
}

// C1: a command that outlasts the client's patience, with the defaults of a
// caller who knows nothing.
func TestStdioC1LongCommand(t *testing.T) {
	t.Parallel()
	c := harness.NewBackground(t).Stdio()
	c.OK(t, "list_sessions", nil) // clients ask for something first, and wait for the server
	r, took := c.Go(t, "run_command", harness.Args{"command": "echo x >> ran; sleep 52; echo done"}, nil).Wait(t)
	require.Less(t, took, 60*time.Second)
	require.Equal(t, "running", r.Str("status"), r.Text)
	handle := r.Str("command_id")
	require.Contains(t, r.Text, handle, "the text alone must be enough to go on")
	out, offset := "", 0
	for {
		r = c.OK(t, "read_output", harness.Args{"command_id": handle, "offset": offset, "wait_seconds": 20})
		out, offset = out+r.Str("data"), r.Num("next_offset")
		if r.Structured["eof"] == true {
			break
		}
	}
	require.Equal(t, "done\n", out)
	require.Equal(t, "x\n", c.Run(t, "cat ran").Str("stdout"), "run once")
}

// C13: the trace of a call is the client's, if it names one.
func TestStdioC13Trace(t *testing.T) {
	t.Parallel()
	c := harness.NewBackground(t).Stdio()
	const theirs = "11111111111111111111111111111111"
	roots := map[string]bool{}
	for traceparent, want := range map[string]string{
		"00-" + theirs + "-3333333333333333-01": theirs,
		"00-zz-33-01":                           "",
		"":                                      "",
	} {
		meta := harness.Args{}
		if traceparent != "" {
			meta["traceparent"] = traceparent
		}
		r, _ := c.Go(t, "run_command", harness.Args{"command": "true"}, meta).Wait(t)
		require.False(t, r.IsError, r.Text)
		id, _ := r.Meta[session.MetaTraceID].(string)
		require.Regexp(t, "^[0-9a-f]{32}$", id)
		if want != "" {
			require.Equal(t, want, id)
		} else {
			require.NotEqual(t, theirs, id)
		}
		roots[id] = true
	}
	require.Len(t, roots, 3)
}

// Whatever comes in, each request has one answer, and nothing but JSON-RPC comes
// out.
func TestStdioUnderLoad(t *testing.T) {
	t.Parallel()
	c := harness.NewBackground(t).Stdio()
	c.Run(t, "true")
	var pending []*harness.Pending
	for i := range 60 {
		switch i % 4 {
		case 0:
			c.Line(t, "garbage "+strings.Repeat("x", i))
		case 1:
			c.Line(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"no/such","id":"s%d"}`, i))
		case 2:
			pending = append(pending, c.Go(t, "read_file", harness.Args{"path": "no such file"}, nil))
		}
		pending = append(pending, c.Go(t, "run_command", harness.Args{"command": fmt.Sprintf("echo %d; seq 1 2000", i)}, nil))
	}
	c.Line(t, `{"jsonrpc":"2.0","method":"tools/call","id":"long","params":"`+strings.Repeat("y", 5<<20)+`"}`)
	for _, p := range pending {
		r, _ := p.Wait(t)
		require.NotEmpty(t, r.Text)
	}
	require.Eventually(t, func() bool { return len(c.Unasked()) == 15+15+1 }, 10*time.Second, 10*time.Millisecond, "%d", len(c.Unasked()))
	codes := map[float64]int{}
	for _, line := range c.Unasked() {
		var m struct {
			Error struct{ Code float64 }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		codes[m.Error.Code]++
	}
	require.Equal(t, map[float64]int{-32700: 15, -32601: 15, -32600: 1}, codes)
}

// A cancelled command is stopped, over stdio too; one whose client left is not.
func TestStdioCancel(t *testing.T) {
	t.Parallel()
	b := harness.NewBackground(t)
	c := b.Stdio("--session", "s")
	c.Run(t, "true") // request 1
	cancelled := c.Go(t, "run_command", harness.Args{"command": "touch began; sleep 60; touch never"}, nil)
	c.Run(t, "until [ -e began ]; do sleep 0.02; done")
	c.Line(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	c.Run(t, "while pgrep sleep >/dev/null; do sleep 0.02; done; true", harness.Args{"timeout_seconds": 10})
	left := c.Go(t, "run_command", harness.Args{"command": "touch left; sleep 3; touch finished"}, nil)
	c.Run(t, "until [ -e left ]; do sleep 0.02; done")
	c.CloseStdin()
	require.Zero(t, c.Ended(t, 2*time.Second))
	for _, p := range []*harness.Pending{cancelled, left} {
		_, err := p.Outcome()
		require.Error(t, err, "no answer")
	}
	r := b.Stdio("--session", "s").Run(t, "until [ -e finished ]; do sleep 0.02; done; ls", harness.Args{"timeout_seconds": 10})
	require.Equal(t, "began\nfinished\nleft\n", r.Str("stdout"), r.Text)
}
