// Package localserver runs a server of the caller's own, for as long as the
// caller wants it: free ports, a temporary data dir, an installation that nobody
// else has.
//
// Entry points: Start, Server.Close. For examples and benchmarks; tests use
// test/harness. It promises to end only the process that it started, and to
// leave nothing of it behind: no process, no file, nothing at the engine.
package localserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout bounds a start. It takes a second or two on a quiet machine.
	startTimeout = 2 * time.Minute
	// stopTimeout is over the 10 s that a server takes at most for its own end.
	stopTimeout = 20 * time.Second
	// pollInterval paces the wait for readiness, which nothing tells of.
	pollInterval = 50 * time.Millisecond
	// logKept is how much of the log an error shows, in bytes.
	logKept = 4 << 10
)

// Server is a running `mcp-sandbox serve`.
type Server struct {
	URL          string // of MCP
	UI           string // Temporal's UI, a link with its token
	Token        string
	Installation string // labels everything of this server's at the engine

	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended

	mu  sync.Mutex
	log bytes.Buffer
}

// Start starts binary and waits until it is ready. The caller closes it.
func Start(ctx context.Context, binary string, flags ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "mcp-sandbox-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, done: make(chan struct{})}
	if err := s.start(ctx, binary, flags); err != nil {
		err = fmt.Errorf("start a server: %w\n%s", err, s.logTail())
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, binary string, flags []string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	data := filepath.Join(s.dir, "data")
	args := append([]string{
		"serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--temporal-ui", "127.0.0.1:0",
	}, flags...)
	// Not bound to ctx: it is ended by Close, in order.
	cmd := exec.Command(binary, args...) //nolint:gosec,noctx // the caller names the binary; Close ends it
	cmd.Env = ownEnvironment()
	cmd.Stderr = s
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's ctrl-C is for the caller, who then ends sessions first
	if err := cmd.Start(); err != nil {
		close(s.done)
		return err
	}
	s.cmd = cmd
	go func() {
		defer close(s.done)
		_ = cmd.Wait()
	}()
	if err := s.poll(ctx, s.announced); err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(data, "token")) //nolint:gosec // in the directory made above
	if err != nil {
		return err
	}
	s.Token = strings.TrimSpace(string(token))
	return s.poll(ctx, func() bool { return s.ready(ctx) })
}

// ownEnvironment is this process's without settings that somebody made for a
// server of theirs, such as its listen address or token file.
func ownEnvironment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MCP_SANDBOX_") {
			env = append(env, v)
		}
	}
	return env
}

// announced reads where the server says it is.
func (s *Server) announced() bool {
	for line := range strings.Lines(s.text()) {
		words := strings.Fields(line)
		switch {
		case !strings.HasSuffix(line, "\n") || len(words) == 0:
		case strings.HasPrefix(line, "MCP "):
			s.URL = words[1]
		case strings.HasPrefix(line, "Temporal UI "):
			s.UI = words[2]
		case strings.HasPrefix(line, "Installation "): // the last of the three
			s.Installation = words[1]
		}
	}
	return s.URL != "" && s.Installation != ""
}

func (s *Server) ready(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.URL, "/mcp")+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (s *Server) poll(ctx context.Context, ok func() bool) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !ok() {
		select {
		case <-s.done:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it did not become ready: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// PID is the server's process ID.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Close ends the server and removes its data and what it has at the engine,
// sessions that were not ended included. It does so when ctx has ended, too.
func (s *Server) Close(ctx context.Context) error {
	var errs []error
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.done:
		case <-time.After(stopTimeout):
			_ = s.cmd.Process.Kill()
			<-s.done
			errs = append(errs, fmt.Errorf("the server did not end within %s of SIGTERM and was killed", stopTimeout))
		}
	}
	if s.Installation != "" {
		errs = append(errs, sweep(context.WithoutCancel(ctx), s.Installation))
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// Write collects what the server prints.
func (s *Server) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(b)
}

func (s *Server) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func (s *Server) logTail() string {
	text := s.text()
	return text[max(0, len(text)-logKept):]
}
