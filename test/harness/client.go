package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Client calls tools over streamable HTTP, MCP revision 2026-07-28.
type Client struct {
	url, token string
	// The trace context in `_meta` and in the HTTP header; "" is none.
	traceMeta, traceHeader string
	progress               bool
}

// WithProgress makes a client that asks to be told of each call's progress.
func (c *Client) WithProgress() *Client {
	d := *c
	d.progress = true
	return &d
}

// WithTrace makes a client that sends a traceparent in `_meta`, in the HTTP
// header, or both; "" is none.
func (c *Client) WithTrace(meta, header string) *Client {
	d := *c
	d.traceMeta, d.traceHeader = meta, header
	return &d
}

// Args are a tool's arguments.
type Args = map[string]any

// Result is a tool's result.
type Result struct {
	IsError    bool
	Text       string // of all text contents
	Structured map[string]any
	Meta       map[string]any
	Raw        json.RawMessage
	Progress   []string // the messages of progress notifications
}

// Code is the error's code, "" for a success.
func (r Result) Code() string {
	e, _ := r.Meta[session.MetaError].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

// CallID is the call's ID.
func (r Result) CallID() string { s, _ := r.Meta[session.MetaCallID].(string); return s }

// Str is a text field of the structured result.
func (r Result) Str(field string) string { s, _ := r.Structured[field].(string); return s }

// Num is a number of the structured result; -1 when it is absent.
func (r Result) Num(field string) int {
	n, ok := r.Structured[field].(float64)
	if !ok {
		return -1
	}
	return int(n)
}

// Client makes a client with the server's own token.
func (s *Server) Client() *Client { return s.ClientWithToken(s.Token) }

// NewClient makes a client of a server that this package did not start, for
// programs that are no tests.
func NewClient(url, token string) *Client { return &Client{url: url, token: token} }

// ClientWithToken makes a client with another token.
func (s *Server) ClientWithToken(token string) *Client { return &Client{url: s.URL, token: token} }

// Call calls a tool and wants a result of any kind.
func (c *Client) Call(t *testing.T, tool string, args Args) Result {
	t.Helper()
	return c.CallAs(t, "", tool, args)
}

// CallAs is Call under a call ID of the caller's choice.
func (c *Client) CallAs(t *testing.T, callID, tool string, args Args) Result {
	t.Helper()
	r, err := c.Try(t.Context(), callID, tool, args)
	require.NoError(t, err)
	return r
}

// OK calls a tool and wants a success.
func (c *Client) OK(t *testing.T, tool string, args Args) Result {
	t.Helper()
	r := c.Call(t, tool, args)
	require.False(t, r.IsError, "%s: %s", tool, r.Text)
	return r
}

// StartSession starts a session and gives its ID.
func (c *Client) StartSession(t *testing.T, args Args) string {
	t.Helper()
	return c.OK(t, "start_session", args).Str("session_id")
}

// Run runs a command and wants an answer about it.
func (c *Client) Run(t *testing.T, sessionID, command string, more ...Args) Result {
	t.Helper()
	args := Args{"session_id": sessionID, "command": command}
	for _, m := range more {
		maps.Copy(args, m)
	}
	return c.OK(t, "run_command", args)
}

// Metrics gives what /metrics says.
func (c *Client) Metrics(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(c.url, "/mcp")+"/metrics", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}

// Try calls a tool; the error is the transport's. It may be used from any
// goroutine.
func (c *Client) Try(ctx context.Context, callID, tool string, args Args) (Result, error) {
	meta := Args{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": Args{},
		"io.modelcontextprotocol/clientInfo":         Args{"name": "harness", "version": "1"},
	}
	if callID != "" {
		meta[session.MetaCallID] = callID
	}
	if c.traceMeta != "" {
		meta["traceparent"] = c.traceMeta
	}
	if c.progress {
		meta["progressToken"] = "harness"
	}
	if args == nil {
		args = Args{}
	}
	return c.post(ctx, "tools/call", tool, Args{"name": tool, "arguments": args, "_meta": meta})
}

func (c *Client) post(ctx context.Context, method, name string, params Args) (Result, error) {
	body, err := json.Marshal(Args{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return Result{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return Result{}, err
	}
	for k, v := range map[string]string{
		"Authorization": "Bearer " + c.token, "Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method": method, "Mcp-Name": name,
	} {
		req.Header.Set(k, v)
	}
	if c.traceHeader != "" {
		req.Header.Set("traceparent", c.traceHeader)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return Result{}, err
	}
	return parse(resp.StatusCode, b)
}

// parse reads a JSON answer, or the last message of an event stream.
func parse(status int, body []byte) (Result, error) {
	text := string(body)
	var progress []string
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			text = data
			var told struct {
				Method string
				Params struct{ Message string }
			}
			if json.Unmarshal([]byte(data), &told) == nil && told.Method == "notifications/progress" {
				progress = append(progress, told.Params.Message)
			}
		}
	}
	var msg struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &msg); err != nil {
		return Result{}, fmt.Errorf("HTTP %d: %q: %w", status, body, err)
	}
	if msg.Error != nil {
		return Result{}, fmt.Errorf("HTTP %d: %s", status, msg.Error.Message)
	}
	var res struct {
		IsError    bool           `json:"isError"`
		Structured map[string]any `json:"structuredContent"`
		Meta       map[string]any `json:"_meta"`
		Content    []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := json.Unmarshal(msg.Result, &res); err != nil {
		return Result{}, fmt.Errorf("result %s: %w", msg.Result, err)
	}
	out := Result{IsError: res.IsError, Structured: res.Structured, Meta: res.Meta, Raw: msg.Result, Progress: progress}
	for _, c := range res.Content {
		out.Text += c.Text
	}
	return out, nil
}
