package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is the binary at any other command than a plain `serve`, which Start
// runs, with an environment of its own.
type Process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended

	mu  sync.Mutex
	log bytes.Buffer
}

// StartProcess starts the binary with these arguments and environment variables
// ("NAME=value") on top of the test's. It is killed when the test ends.
func StartProcess(t *testing.T, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, done: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), Binary(t), args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(p.Kill)
	return p
}

// Write collects what the process prints.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// Log gives what the process has printed so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Await waits for a line that starts with these words and gives its next word.
func (p *Process) Await(words string) string {
	p.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		for line := range strings.Lines(p.Log()) {
			if rest, ok := strings.CutPrefix(line, words+" "); ok && strings.HasSuffix(line, "\n") {
				return strings.Fields(rest)[0]
			}
		}
		select {
		case <-p.done:
			p.t.Fatalf("waiting for %q: the process has ended:\n%s", words, p.Log())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("waited for %q:\n%s", words, p.Log())
		}
	}
}

// Terminate ends the process with SIGTERM and wants it ended within most.
func (p *Process) Terminate(t *testing.T, most time.Duration) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(most):
		t.Fatalf("the process did not end within %s:\n%s", most, p.Log())
	}
}

// Kill kills the process with SIGKILL and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Client makes a client of a `serve` whose data dir is given, and has what its
// sessions leave removed when the test ends.
func (p *Process) Client(dataDir string) *Client {
	p.t.Helper()
	url := p.Await("MCP")
	installation := p.Await("Installation")
	token, err := os.ReadFile(filepath.Join(dataDir, "token"))
	if err != nil {
		p.t.Fatal(err)
	}
	s := &Server{URL: url, Token: strings.TrimSpace(string(token)), t: p.t, docker: Docker(p.t), lastInstallation: installation}
	p.t.Cleanup(func() {
		p.Kill()
		s.sweep()
	})
	s.done = p.done
	s.await("the server to be ready", 30*time.Second, s.Ready)
	return s.Client()
}

// Outcome is how a process ended.
type Outcome struct {
	Code   int
	Stderr string
	Took   time.Duration
}

// RunProcess runs the binary until it ends, and fails the test if that takes
// more than most.
func RunProcess(t *testing.T, most time.Duration, env []string, args ...string) Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, Binary(t), args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to see what it leaves
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("%v did not end within %s:\n%s", args, most, stderr.String())
	case err != nil && !errors.As(err, &exit):
		t.Fatal(err)
	case !errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH):
		t.Errorf("%v left a process behind", args)
	}
	return Outcome{Code: cmd.ProcessState.ExitCode(), Stderr: stderr.String(), Took: took}
}
