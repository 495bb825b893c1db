package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout bounds a start, which takes a second or two on a quiet machine.
	startTimeout = 2 * time.Minute
	// stopTimeout is how long a process may take to end by itself.
	stopTimeout  = 20 * time.Second
	pollInterval = 20 * time.Millisecond
)

// process is one part of the system, which ends and is started again.
type process struct {
	name string
	env  []string
	log  *os.File // over all lives
	// ready tells whether it does its work, by what it has printed in this life.
	ready func(ctx context.Context, printed string) bool

	mu      sync.Mutex
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended
	printed strings.Builder
}

// launch starts the process and returns at once; await waits for it.
func (p *process) launch(binary string, args ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.printed.Reset()
	cmd := exec.Command(binary, args...) //nolint:gosec,noctx // the binary under test; it outlives every context and is ended by name
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, p, p
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's ctrl-C is for us, who then remove what it made
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	p.cmd, p.done = cmd, done
	return nil
}

// await waits until the process is ready.
func (p *process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return poll(ctx, func() (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("%s has ended:\n%s", p.name, tail(p.text()))
		default:
		}
		if p.ready(ctx, p.text()) {
			return true, nil
		}
		return false, nil
	}, func() string { return p.name + " is not ready:\n" + tail(p.text()) })
}

// poll asks until the answer is yes. There is nothing to be notified by.
func poll(ctx context.Context, ok func() (bool, error), what func() string) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if yes, err := ok(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what(), ctx.Err())
		case <-tick.C:
		}
	}
}

// signal sends a signal to this process and nothing else.
func (p *process) signal(sig syscall.Signal) {
	if p != nil && p.cmd != nil {
		_ = p.cmd.Process.Signal(sig)
	}
}

// kill ends the process with SIGKILL, and returns when it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop ends it with SIGTERM, also when it was frozen.
func (p *process) stop() error {
	if p == nil || p.cmd == nil {
		return nil
	}
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT)
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		p.kill()
		return errors.New(p.name + " did not end within " + stopTimeout.String() + " of SIGTERM and was killed")
	}
}

// Write collects what the process prints.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != nil {
		_, _ = p.log.Write(b)
	}
	return p.printed.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.printed.String()
}

// word gives the first word after these at the start of a whole line, or "".
func word(printed, words string) string {
	for line := range strings.Lines(printed) {
		if rest, ok := strings.CutPrefix(line, words+" "); ok && strings.HasSuffix(line, "\n") {
			return strings.Fields(rest)[0]
		}
	}
	return ""
}

func tail(text string) string { return text[max(0, len(text)-2048):] }
