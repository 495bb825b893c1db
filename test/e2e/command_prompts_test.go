package e2e_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// Each ends at once with the program's own message. A prompt would wait for the
// timeout.
func a9Prompts(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, harness.Args{"image": defaultImage})
	for _, test := range []struct {
		command string
		exit    int
		message string // on stderr
	}{
		{"cat", 0, ""},
		{"read x", 1, ""},
		{"python3 -c 'input()'", 1, "EOFError"},
		{"git init -q a && cd a && git -c user.name=a -c user.email=a@example.org commit --allow-empty", 1, "empty commit message"},
		{"git clone https://example.org/private.git", 128, "Could not resolve host"},
		{"git init -q b && cd b && git -c user.name=a -c user.email=a@example.org commit --allow-empty -qm one && git log", 0, ""}, // no pager
		{"[ -t 0 ] || [ -t 1 ] || [ -t 2 ]", 1, ""},
		{"tty", 1, ""},
	} {
		r := c.Run(t, id, test.command, harness.Args{"timeout_seconds": 20})
		require.Equal(t, "exited", r.Str("status"), test.command)
		require.Equal(t, test.exit, r.Num("exit_code"), "%s: %s", test.command, r.Text)
		require.Contains(t, r.Str("stderr"), test.message, test.command)
		require.Less(t, r.Num("duration_ms"), 5000, test.command)
	}
}

// privateServer asks everybody for a password, inside the sandbox: it has no
// network.
const privateServer = `
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic realm=private")
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
`

func a9Password(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, harness.Args{"image": defaultImage})
	server := c.Run(t, id, "python3 - <<'END'\n"+privateServer+"END", harness.Args{"wait_seconds": 0}).Str("command_id")
	port := c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": server, "wait_seconds": 20})
	require.Equal(t, "running", port.Str("status"), port.Text)
	r := c.Run(t, id, "git clone http://127.0.0.1:"+strings.TrimSpace(port.Str("data"))+"/private.git", harness.Args{"timeout_seconds": 20})
	require.Equal(t, 128, r.Num("exit_code"), r.Text)
	require.Contains(t, r.Str("stderr"), "terminal prompts disabled")
}
