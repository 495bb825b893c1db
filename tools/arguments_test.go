package tools_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// Bad input gets a clear error before anything happens.
func TestRefusedArguments(t *testing.T) {
	for name, row := range map[string]struct{ tool, arguments, want string }{
		"unknown": {
			"run_command", `{"session_id":"s","command":"x","timeout":5}`,
			`unknown argument "timeout"; did you mean timeout_seconds? run_command takes: session_id, command, cwd?, env?, stdin?, timeout_seconds?, wait_seconds?, max_output_bytes? (? is optional)`,
		},
		"unknown, nothing near": {"get_session", `{"session_id":"s","xxx":1}`, `unknown argument "xxx"; get_session takes: session_id (? is optional)`},
		"other case":            {"run_command", `{"session_id":"s","Command":"x"}`, `unknown argument "Command"; did you mean command?`},
		"a null under a wrong name": {
			"run_command", `{"session_id":"s","cmd":null,"command":"x"}`, `unknown argument "cmd"; did you mean command?`,
		},
		"file_path":           {"read_file", `{"session_id":"s","file_path":"x"}`, `did you mean path?`},
		"old_string":          {"edit_file", `{"session_id":"s","path":"x","old_string":"a","new_string":"b"}`, `unknown argument "new_string"; did you mean new_str? unknown argument "old_string"; did you mean old_str? edit_file takes: `},
		"missing":             {"run_command", `{"session_id":"s"}`, `command: required; run_command takes: `},
		"missing, null":       {"run_command", `{"session_id":"s","command":null}`, `command: required`},
		"missing session":     {"run_command", `{"command":"x"}`, `session_id: required; start_session makes a session`},
		"empty session":       {"run_command", `{"command":"x","session_id":""}`, `session_id: required; start_session makes a session`},
		"no arguments":        {"run_command", ``, `session_id: required`},
		"no object":           {"run_command", `["x"]`, `arguments: want an object such as {"name": value}, got an array`},
		"text for a number":   {"run_command", `{"session_id":"s","command":"x","wait_seconds":"10"}`, `wait_seconds: want a whole number, got the string "10"; send it without quotes`},
		"a fraction":          {"run_command", `{"session_id":"s","command":"x","wait_seconds":1.5}`, `wait_seconds: want a whole number, got the number 1.5`},
		"a number for text":   {"run_command", `{"session_id":"s","command":5}`, `command: want a string, got the number 5; put it in quotes`},
		"an object for text":  {"run_command", `{"session_id":"s","command":{}}`, `command: want a string, got an object`},
		"text for a boolean":  {"write_file", `{"session_id":"s","path":"x","content":"","append":"true"}`, `append: want true or false, got the string "true"; send it without quotes`},
		"text for an object":  {"run_command", `{"session_id":"s","command":"x","env":"A=1"}`, `env: want an object, got the string "A=1"`},
		"a number in env":     {"run_command", `{"session_id":"s","command":"x","env":{"A":1}}`, `env.A: want a string, got the number 1; put it in quotes`},
		"null in env":         {"run_command", `{"session_id":"s","command":"x","env":{"A":null}}`, `env.A: want a string, got null`},
		"A8 above":            {"run_command", `{"session_id":"s","command":"x","timeout_seconds":86401}`, `timeout_seconds: 86401 is above the maximum of 86400`},
		"explicit zero":       {"run_command", `{"session_id":"s","command":"x","timeout_seconds":0}`, `timeout_seconds: 0 is below the minimum of 1`},
		"explicit zero again": {"read_file", `{"session_id":"s","path":"x","limit":0}`, `limit: 0 is below the minimum of 1`},
		"below":               {"run_command", `{"session_id":"s","command":"x","wait_seconds":-1}`, `wait_seconds: -1 is below the minimum of 0`},
		"fraction of minimum": {"start_session", `{"cpus":0.01}`, `cpus: 0.01 is below the minimum of 0.05`},
		"beyond int64":        {"read_output", `{"session_id":"s","command_id":"c","offset":9223372036854775808}`, `offset: 9223372036854775808 is out of range`},
		"no choice":           {"read_output", `{"session_id":"s","command_id":"c","stream":"both"}`, `stream: "both" is not one of stdout, stderr`},
		"empty choice":        {"read_output", `{"session_id":"s","command_id":"c","stream":""}`, `stream: "" is not one of stdout, stderr`},
		"network not offered": {"start_session", `{"network":"full"}`, `network: "full" is not one of none`},
		"empty text":          {"run_command", `{"session_id":"s","command":""}`, `command: must not be empty`},
		"too long":            {"start_session", `{"name":"` + strings.Repeat("x", 129) + `"}`, `name: 129 bytes; at most 128 are taken`},
		"rule over fields":    {"send_input", `{"session_id":"s","command_id":"c"}`, `data: give data to write`},
		"half a pair":         {"write_file", `{"session_id":"s","path":"x","content":"a\\\ud83d"}`, `content: \ud83d is half a character`},
		"half a pair in env":  {"run_command", `{"session_id":"s","command":"x","env":{"A":"\udc00"}}`, `env: \udc00 is half a character`},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &caller{}
			result := call(t, inProcess(t, tools.Options{Caller: fake}), request(row.tool, row.arguments))
			require.True(t, result.IsError)
			require.True(t, strings.HasPrefix(text(t, result), "InvalidArgument: "))
			require.Contains(t, text(t, result), row.want)
			require.Empty(t, fake.invocations(), "nothing happened")
		})
	}
}

func TestAcceptedArguments(t *testing.T) {
	for name, row := range map[string]struct {
		tool, arguments string
		want            any
	}{
		"no arguments":        {"list_sessions", ``, session.ListSessionsIn{Limit: 50}},
		"null":                {"list_sessions", `null`, session.ListSessionsIn{Limit: 50}},
		"null is not given":   {"list_sessions", `{"limit":null}`, session.ListSessionsIn{Limit: 50}},
		"10.0 and 1e1":        {"list_sessions", ` {"limit": 1e1 } `, session.ListSessionsIn{Limit: 10}},
		"the extremes":        {"list_sessions", `{"limit":500}`, session.ListSessionsIn{Limit: 500}},
		"zero where allowed":  {"read_output", `{"session_id":"s","command_id":"c","wait_seconds":0}`, readOutput(0)},
		"beyond 2^53":         {"read_output", `{"session_id":"s","command_id":"c","offset":9007199254740993}`, readOutput(9007199254740993)},
		"negative":            {"read_output", `{"session_id":"s","command_id":"c","offset":-5.0}`, readOutput(-5)},
		"empty text":          {"write_file", `{"session_id":"s","path":"x","content":""}`, session.WriteFileIn{Path: "x", Encoding: "utf-8"}},
		"a whole pair":        {"write_file", `{"session_id":"s","path":"x","content":"\ud83d\ude00"}`, session.WriteFileIn{Path: "x", Content: "\U0001F600", Encoding: "utf-8"}},
		"an escaped escape":   {"write_file", `{"session_id":"s","path":"x","content":"\\ud83d"}`, session.WriteFileIn{Path: "x", Content: `\ud83d`, Encoding: "utf-8"}},
		"other escapes":       {"write_file", `{"session_id":"s","path":"x","content":"\n\u00e9\u0000"}`, session.WriteFileIn{Path: "x", Content: "\né\x00", Encoding: "utf-8"}},
		"a choice":            {"write_file", `{"session_id":"s","path":"x","content":"eA==","encoding":"base64","append":true}`, session.WriteFileIn{Path: "x", Content: "eA==", Encoding: "base64", Append: true}},
		"no other arguments":  {"get_session", `{"session_id":"s"}`, session.GetSessionIn{}},
		"zero of a pointer":   {"run_command", `{"session_id":"s","command":"x","wait_seconds":0}`, session.RunCommandIn{Command: "x", WaitSeconds: new(int), MaxOutputBytes: 32768}},
		"an empty stdin":      {"run_command", `{"session_id":"s","command":"x","stdin":""}`, session.RunCommandIn{Command: "x", Stdin: new(string), MaxOutputBytes: 32768}},
		"a map, and a choice": {"run_command", `{"session_id":"s","command":"x","env":{"A":"1"}}`, session.RunCommandIn{Command: "x", Env: map[string]string{"A": "1"}, MaxOutputBytes: 32768}},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &caller{}
			result := call(t, inProcess(t, tools.Options{Caller: fake}), request(row.tool, row.arguments))
			require.False(t, result.IsError, "%v", result.Content)
			require.Equal(t, row.want, fake.invocations()[0].in)
		})
	}
}

func readOutput(offset int64) session.ReadOutputIn {
	return session.ReadOutputIn{CommandID: "c", Stream: "stdout", Offset: offset, MaxBytes: 32768}
}

// Invalid UTF-8 would reach the file as U+FFFD.
func TestInvalidUTF8(t *testing.T) {
	answer := tools.New(tools.Options{Caller: &caller{}}).HandleMessage(tools.WithOwner(t.Context(), owner),
		[]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_file","arguments":{"session_id":"s","path":"x","content":"`+"\xff"+`"}}}`))
	b, err := json.Marshal(answer)
	require.NoError(t, err)
	require.Contains(t, string(b), "InvalidArgument: arguments: not valid UTF-8")
}

// Whatever arguments come, there is an answer: the arguments pass as they are,
// or they are refused; nothing is a fault of ours.
func FuzzArguments(f *testing.F) {
	for _, spec := range tools.Catalog() {
		for _, arguments := range []string{
			``, `null`, `{}`, `[]`, `{"session_id":"s","command":"x","wait_seconds":1e1,"env":{"A":"\ud83d\ude00"}}`,
			`{"session_id":"s","path":"a","content":"\\u\u0000","append":true,"limit":-0}`, `{"offset":1E400,"cpus":-0.0}`,
			`{"session_id":"s","command_id":"c","data":"eA==","encoding":"base64","close":true}`,
			`{"session_id":"s","path":"p","old_str":"a","new_str":"b"}`, `{"snapshot_id":"snap_x"}`,
		} {
			f.Add(spec.Name, arguments)
		}
	}
	srv := tools.New(tools.Options{Caller: &caller{}, Logger: quiet()})
	all := srv.ListTools()
	f.Fuzz(func(t *testing.T, name, arguments string) {
		tool, ok := all[name]
		if !ok || (arguments != "" && !json.Valid([]byte(arguments))) {
			t.Skip("mcp-go answers these")
		}
		result, err := tool.Handler(tools.WithOwner(t.Context(), owner), request(name, arguments))
		require.NoError(t, err)
		if !result.IsError {
			return
		}
		code := result.Meta.AdditionalFields[session.MetaError].(session.Failure).Code
		require.Contains(t, []session.Code{session.InvalidArgument, session.NotFound}, code, "%v", result.Content[0].(mcp.TextContent).Text)
	})
}
