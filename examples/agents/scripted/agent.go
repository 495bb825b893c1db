package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// callTimeout is over the 55 s within which the server answers every call.
const callTimeout = 70 * time.Second

// args are a tool's arguments.
type args map[string]any

// result is what came of a call.
type result struct {
	text       string // what a model would see
	isError    bool
	structured map[string]any
}

func (r result) str(field string) string { s, _ := r.structured[field].(string); return s }

// call is a call that was made.
type call struct {
	tool                               string
	took                               time.Duration
	callID, workflowID, runID, traceID string
}

// agent works in one session. After the first step that is not as expected it
// does nothing more, and err says which.
type agent struct {
	mcp   *client.Client
	out   *transcript
	tools map[string]bool // that the server offers
	calls []call
	err   error

	startID  string // call ID of start_session and its arguments, to ask again for a lost answer
	started  args
	session  string // "" before it is started and after it is ended
	snapshot string // likewise
	workflow call   // the last call that named the session's workflow
}

// newAgent connects. mcp-go chooses the newest protocol revision that both
// sides speak.
func newAgent(ctx context.Context, url, token string, out *transcript) (*agent, error) {
	headers := map[string]string{}
	if token != "" {
		headers["Authorization"] = "Bearer " + token
	}
	c, err := client.NewStreamableHttpClient(url, transport.WithHTTPHeaders(headers))
	if err != nil {
		return nil, err
	}
	a := &agent{mcp: c, out: out, tools: map[string]bool{}}
	if err := a.hello(ctx); err != nil {
		a.close()
		return nil, fmt.Errorf("connect to %s: %w", url, err)
	}
	return a, nil
}

func (a *agent) hello(ctx context.Context) error {
	if err := a.mcp.Start(ctx); err != nil {
		return err
	}
	var init mcp.InitializeRequest
	init.Params.ClientInfo = mcp.Implementation{Name: "scripted-agent", Version: "1"}
	info, err := a.mcp.Initialize(ctx, init)
	if err != nil {
		return err
	}
	list, err := a.mcp.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return err
	}
	for _, t := range list.Tools {
		a.tools[t.Name] = true
	}
	a.out.note("Connected to %s %s, MCP %s, %d tools", info.ServerInfo.Name, info.ServerInfo.Version, info.ProtocolVersion, len(list.Tools))
	return nil
}

func (a *agent) close() { _ = a.mcp.Close() }

// do makes one call, as the step called why, and checks what came back.
func (a *agent) do(ctx context.Context, why, tool string, in args, checks ...check) result {
	if a.err != nil {
		return result{}
	}
	a.out.step(why, tool, in)
	callID := ""
	if tool == session.StartSession.Name {
		a.startID, a.started = session.NewCallID(), in
		callID = a.startID
	}
	if a.session != "" && tool != "delete_snapshot" {
		in["session_id"] = a.session
	}
	r, c, err := a.send(ctx, callID, tool, in)
	if err != nil {
		a.err = fmt.Errorf("%s: %w", tool, err)
		return r
	}
	a.calls = append(a.calls, c)
	if strings.HasPrefix(c.workflowID, session.WorkflowIDPrefix) { // and not a snapshot's
		a.workflow = c
	}
	a.out.result(r.text, c.took)
	for _, check := range append([]check{succeeded}, checks...) {
		if wrong := check(r); wrong != "" {
			a.err = fmt.Errorf("step %d (%s) %s: %s", a.out.steps, why, tool, wrong)
			return r
		}
	}
	return r
}

// send is one tools/call. The same call ID again gives the same answer; "" lets
// the server make one.
func (a *agent) send(ctx context.Context, callID, tool string, in args) (result, call, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = tool, map[string]any(in)
	if callID != "" {
		req.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{session.MetaCallID: callID}}
	}
	began := time.Now()
	res, err := a.mcp.CallTool(ctx, req)
	c := call{tool: tool, took: time.Since(began)}
	if err != nil {
		return result{}, c, err
	}
	r := result{isError: res.IsError}
	r.structured, _ = res.StructuredContent.(map[string]any)
	for _, content := range res.Content {
		if t, ok := content.(mcp.TextContent); ok {
			r.text += t.Text
		}
	}
	if res.Meta != nil {
		field := func(key string) string { s, _ := res.Meta.AdditionalFields[key].(string); return s }
		c.callID, c.workflowID, c.runID, c.traceID = field(session.MetaCallID), field(session.MetaWorkflowID), field(session.MetaRunID), field(session.MetaTraceID)
	}
	return r, c, nil
}

// tidy ends what a script that broke off left, also a session whose ID never
// arrived.
func (a *agent) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	if a.session == "" && a.err != nil && a.startID != "" {
		r, _, _ := a.send(ctx, a.startID, session.StartSession.Name, a.started)
		a.session = r.str("session_id")
	}
	if a.session != "" {
		_, _, _ = a.send(ctx, "", "end_session", args{"session_id": a.session})
	}
	if a.snapshot != "" {
		_, _, _ = a.send(ctx, "", "delete_snapshot", args{"snapshot_id": a.snapshot})
	}
}

// check looks at a result and says what is wrong with it, "" for nothing.
type check func(result) string

func succeeded(r result) string {
	if r.isError {
		return "it failed: " + r.text
	}
	return ""
}

// exits wants a command's exit code.
func exits(code int) check {
	return func(r result) string {
		if got, ok := r.structured["exit_code"].(float64); !ok || int(got) != code {
			return fmt.Sprintf("exit code %v, expected %d", r.structured["exit_code"], code)
		}
		return ""
	}
}

// says wants words in the text.
func says(words string) check {
	return func(r result) string {
		if !strings.Contains(r.text, words) {
			return fmt.Sprintf("the result does not say %q", words)
		}
		return ""
	}
}

// gives wants a field of the structured result that is not empty.
func gives(field string) check {
	return func(r result) string {
		if r.str(field) == "" {
			return "the result has no " + field
		}
		return ""
	}
}
