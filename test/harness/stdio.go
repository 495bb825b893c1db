package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Stdio is a client at the other end of a `mcp-sandbox stdio` process, of MCP
// revision 2026-07-28. Every line of the process's stdout must be JSON-RPC.
type Stdio struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{} // closed when the process has ended and all its output is read

	mu      sync.Mutex
	stderr  bytes.Buffer
	lastID  int
	waiting map[string]chan json.RawMessage // by ID as written
	unasked []string                        // lines that answer nothing of ours
	bad     []string
}

// Stdio starts a client's process with the built binary. It is killed when the
// test ends.
func (b *Background) Stdio(flags ...string) *Stdio {
	b.t.Helper()
	return b.StdioOf(Binary(b.t), append([]string{"stdio"}, flags...)...)
}

// StdioOf is Stdio with another program.
func (b *Background) StdioOf(program string, args ...string) *Stdio {
	b.t.Helper()
	s := &Stdio{t: b.t, cmd: exec.Command(program, args...), done: make(chan struct{}), waiting: map[string]chan json.RawMessage{}}
	s.cmd.Env = append(os.Environ(), b.Env...)
	s.cmd.Stderr = &lockedWriter{s}
	var err error
	s.stdin, err = s.cmd.StdinPipe()
	require.NoError(b.t, err)
	// Not StdoutPipe, which Wait closes: a child of the process may write on.
	out, stdout, err := os.Pipe()
	require.NoError(b.t, err)
	s.cmd.Stdout = stdout
	require.NoError(b.t, s.cmd.Start())
	require.NoError(b.t, stdout.Close())
	go func() {
		defer close(s.done)
		s.read(out)
		_ = out.Close()
		_ = s.cmd.Wait()
	}()
	b.t.Cleanup(func() {
		_ = s.stdin.Close()
		s.Kill()
		require.Empty(b.t, s.bad, "on stdout")
	})
	return s
}

type lockedWriter struct{ s *Stdio }

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.stderr.Write(p)
}

func (s *Stdio) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			s.take(line)
		}
		if err != nil {
			return
		}
	}
}

func (s *Stdio) take(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var m struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
	}
	if json.Unmarshal(line, &m) != nil || m.JSONRPC != "2.0" || line[len(line)-1] != '\n' {
		s.bad = append(s.bad, string(line))
		return
	}
	if got := s.waiting[string(m.ID)]; got != nil {
		delete(s.waiting, string(m.ID)) // a second answer is unasked
		got <- line
		return
	}
	s.unasked = append(s.unasked, string(line))
}

// Unasked gives the lines that answered nothing of ours: notifications, errors
// without an ID.
func (s *Stdio) Unasked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.unasked...)
}

// Stderr gives what the process has printed there.
func (s *Stdio) Stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

// Line sends a line as it is.
func (s *Stdio) Line(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(s.stdin, line+"\n")
	require.NoError(t, err)
}

// Message sends a request under the next ID; the answer's line comes on the
// channel.
func (s *Stdio) Message(method string, params Args) (<-chan json.RawMessage, error) {
	s.mu.Lock()
	s.lastID++
	id := s.lastID
	got := make(chan json.RawMessage, 1)
	s.waiting[itoa(id)] = got
	s.mu.Unlock()
	line, err := json.Marshal(Args{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	_, err = s.stdin.Write(append(line, '\n'))
	return got, err
}

// Go calls a tool and does not wait for the result. meta comes on top of the
// client's. As a model would, it calls again while the default session starts,
// which may take a while on a machine with much to do.
func (s *Stdio) Go(t *testing.T, tool string, args, meta Args) *Pending {
	t.Helper()
	all := clientMeta()
	maps.Copy(all, meta)
	if args == nil {
		args = Args{}
	}
	p := &Pending{done: make(chan struct{})}
	var began time.Time
	send := func() (<-chan json.RawMessage, error) {
		began = time.Now()
		return s.Message("tools/call", Args{"name": tool, "arguments": args, "_meta": all})
	}
	got, err := send()
	require.NoError(t, err)
	go func() {
		defer close(p.done)
		for p.err == nil {
			select {
			case line := <-got:
				p.result, p.err = parse(0, line)
			case <-s.done:
				p.err = errors.New("the stdio process has ended")
			}
			p.took = time.Since(began)
			if !strings.Contains(p.result.Text, "is still starting; nothing was done yet") {
				return
			}
			got, p.err = send()
		}
	}()
	return p
}

// Call calls a tool and wants a result of any kind within 2 min.
func (s *Stdio) Call(t *testing.T, tool string, args Args) Result {
	t.Helper()
	p := s.Go(t, tool, args, nil)
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s: no answer\n%s", tool, s.Stderr())
	}
	require.NoError(t, p.err, s.Stderr())
	return p.result
}

// OK calls a tool and wants a success.
func (s *Stdio) OK(t *testing.T, tool string, args Args) Result {
	t.Helper()
	r := s.Call(t, tool, args)
	require.False(t, r.IsError, "%s: %s", tool, r.Text)
	return r
}

// Run runs a command in the default session.
func (s *Stdio) Run(t *testing.T, command string, more ...Args) Result {
	t.Helper()
	args := Args{"command": command}
	for _, m := range more {
		maps.Copy(args, m)
	}
	return s.OK(t, "run_command", args)
}

// Session is the session that a result came from.
func (r Result) Session() string { id, _ := r.Meta[session.MetaSessionID].(string); return id }

// CloseStdin is how a client leaves.
func (s *Stdio) CloseStdin() { _ = s.stdin.Close() }

// Signal sends the process a signal.
func (s *Stdio) Signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// Kill kills the process and waits for its end.
func (s *Stdio) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

// Ended waits for the end of the process and gives its exit code. The test fails
// if that takes more than most.
func (s *Stdio) Ended(t *testing.T, most time.Duration) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	select {
	case <-s.done:
	case <-ctx.Done():
		t.Fatalf("the stdio process lives after %s:\n%s", most, s.Stderr())
	}
	return s.cmd.ProcessState.ExitCode()
}
