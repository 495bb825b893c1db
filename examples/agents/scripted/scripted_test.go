package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/examples/agents/scripted/localserver"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// defaultImage has the python3 that the script needs.
const defaultImage = "mcp-sandbox/default:latest"

var uiLine = regexp.MustCompile(`(?m)^Temporal UI +(http\S+)\n`)

// The demo as `make demo DEMO_FLAGS=--keep` runs it, without a terminal: the
// link that it prints works until Enter, and after that nothing is left.
func TestDemo(t *testing.T) {
	binary, api := harness.Binary(t), harness.Docker(t)
	if _, err := api.ImageInspect(t.Context(), defaultImage); err != nil {
		missing(t, "no image "+defaultImage+" (make setup)")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()

	enter, keyboard := io.Pipe()
	screen, out := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		c := run(ctx, []string{"--binary", binary, "--keep"}, enter, out, &stderr)
		_ = out.Close()
		code <- c
	}()
	var text strings.Builder
	for lines := bufio.NewScanner(screen); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "The server runs until") {
			showsHistory(t, uiLine.FindStringSubmatch(text.String())[1])
			_, err := io.WriteString(keyboard, "\n")
			require.NoError(t, err)
		}
	}
	require.Zero(t, <-code, "%s\n%s", text.String(), stderr.String())

	got := text.String()
	for _, want := range []string{
		"FAILED (failures=1)", "restore_snapshot snapshot_id=", "Workflow ID  session/s_", "Run ID ", "Server ended",
	} {
		require.Contains(t, got, want)
	}
	require.Equal(t, 2, strings.Count(got, "\n     | OK\n"), "tests pass before the snapshot and after the restore:\n%s", got)
	require.Regexp(t, `(?m)^ +run_command +\d+ ms  c_\w+ +[0-9a-f]{32}$`, got, "a call has a trace")

	installation := regexp.MustCompile(`installation (\S+),`).FindStringSubmatch(got)[1]
	left, err := localserver.Labelled(t.Context(), api, session.LabelInstallation+"="+installation)
	require.NoError(t, err)
	require.Empty(t, left, "left at the engine")
	files, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, files, "left in the temporary directory")
}

// showsHistory opens the link as a browser does.
func showsHistory(t *testing.T, link string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar, Timeout: 20 * time.Second}
	get := func(link string) string {
		resp, err := browser.Get(link)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, link)
		return string(body)
	}
	get(link) // brings the cookie
	page, _, _ := strings.Cut(link, "?")
	// What the page itself asks for: host/api/v1/namespaces/.../workflows/ID/history.
	at := strings.Index(page, "/namespaces/")
	parts := strings.Split(page[at:], "/") // "", namespaces, default, workflows, ID, run, history
	require.Len(t, parts, 7)
	history := get(page[:at] + "/api/v1" + strings.Join(parts[:5], "/") + "/history?execution.runId=" + parts[5])
	require.Contains(t, history, "restore_snapshot")
	require.Contains(t, history, "EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--nonsense"}, {"extra"}, {"--ui", "http://x"}, {"--server", "http://x", "--keep"}} {
		var stderr bytes.Buffer
		require.Equal(t, 2, run(t.Context(), args, strings.NewReader(""), io.Discard, &stderr), "%v", args)
		require.NotEmpty(t, stderr.String())
	}
}

// A step that is not as expected ends the demo with 1, and says which.
func TestFailedStep(t *testing.T) {
	a := &agent{out: &transcript{out: io.Discard}, err: io.ErrUnexpectedEOF}
	a.work(t.Context(), "") // would panic without a client if a step were still made
	require.ErrorIs(t, a.err, io.ErrUnexpectedEOF)
	require.NotEmpty(t, exits(0)(result{structured: map[string]any{"exit_code": 1.0}}))
	require.NotEmpty(t, exits(0)(result{structured: map[string]any{}}), "a command that still runs has no exit code")
	require.Empty(t, exits(0)(result{structured: map[string]any{"exit_code": 0.0}}))
}

func TestOneLine(t *testing.T) {
	require.Equal(t, `write_file path="p" content="a\n<b>"`, oneLine("write_file", args{"content": "a\n<b>", "path": "p"}))
	long := oneLine("run_command", args{"command": strings.Repeat("é", 500)})
	require.True(t, strings.HasSuffix(long, "..."))
	require.Len(t, []rune(long), lineWidth-len(indent))
}

func missing(t *testing.T, what string) {
	t.Helper()
	if strings.Contains(os.Getenv("MCP_SANDBOX_REQUIRE"), "docker") {
		t.Fatalf("%s; MCP_SANDBOX_REQUIRE=docker forbids to skip", what)
	}
	t.Skipf("%s; `make test` brings everything that is needed", what)
}
