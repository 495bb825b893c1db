package supervisor

import (
	"context"
	"encoding/json"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
)

// outputGrace is how long the end of a command waits for the end of its output.
// Helpers that the shell does not wait for (`> >(tee log)`) finish in it; a
// descendant that lives on holds the answer up no longer.
const outputGrace = 100 * time.Millisecond

// killGrace is what a timed-out tree gets between TERM and KILL.
const killGrace = 500 * time.Millisecond

// command is one command, running or ended.
type command struct {
	id      string
	seq     uint64
	tag     uint32
	text    string // its first 200 bytes
	out     *stream
	err     *stream
	in      *stdin // nil unless it was started with input
	child   *child // nil when it did not start in this life of the guest
	oom     uint64 // OOM kills of the sandbox before it started
	timeout time.Duration

	started  chan struct{} // closed once it is known whether it started
	startErr *guest.Error
	done     chan struct{} // closed with the final status

	mu     sync.Mutex
	state  guest.Command // without the streams
	exited bool          // the first process is gone
	cause  guest.Status  // why we ended it, if we did
	sent   syscall.Signal
	ending sync.WaitGroup // those who are ending the tree
}

type child struct {
	pid  int
	exit <-chan syscall.WaitStatus
}

// runDetail is what the journal keeps of a command's start.
type runDetail struct {
	Command string `json:"command"`
}

// runOutcome is what it keeps of the end: one of the two.
type runOutcome struct {
	Command *guest.Command `json:"command,omitempty"`
	Error   *guest.Error   `json:"error,omitempty"`
}

func (c *command) tree() tree {
	t := tree{tag: c.tag}
	if c.child != nil {
		t.leader = c.child.pid
	}
	return t
}

// end notes why the command is being ended by the caller, who calls done when
// the tree is gone: until then descendants have their grace, even when the first
// process is gone at once. It returns false, and changes nothing, when the first
// process had ended by itself before.
func (c *command) end(cause guest.Status) (done func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exited {
		return func() {}, false
	}
	if c.cause == "" {
		c.cause = cause
	}
	c.ending.Add(1)
	return c.ending.Done, true
}

// noteSignal remembers a signal that a stop request sends.
func (c *command) noteSignal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = sig
}

// follow sees a command through to its end.
func (s *Supervisor) follow(c *command) {
	status := s.awaitExit(c)
	if c.cause != "" { // fixed, now that the first process is gone
		// The first process may be gone before its tree. Nothing of it is
		// left when the status says so.
		c.ending.Wait()
		s.tracker.destroy(s.ctx, c.tree())
	}
	settled := time.Now().Add(outputGrace)
	c.out.settle(settled)
	c.err.settle(settled)
	if c.in != nil {
		c.in.close()
	}
	s.finish(c, status)
}

// awaitExit waits for the first process and enforces the timeout.
func (s *Supervisor) awaitExit(c *command) syscall.WaitStatus {
	var expired <-chan time.Time
	if c.timeout > 0 {
		timer := time.NewTimer(c.timeout)
		defer timer.Stop()
		expired = timer.C
	}
	var status syscall.WaitStatus
	select {
	case status = <-c.child.exit:
	case <-expired:
		if done, ok := c.end(guest.StatusTimedOut); ok {
			s.tracker.terminate(s.ctx, c.tree(), killGrace)
			done()
		}
		status = <-c.child.exit
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exited = true
	return status
}

// finish records the end and tells those who wait.
func (s *Supervisor) finish(c *command, status syscall.WaitStatus) {
	oom := s.cgroup.oomKills() > c.oom
	alone := s.endRunning()
	c.mu.Lock()
	final := c.state
	final.Status = guest.StatusExited
	switch {
	case c.cause != "":
		final.Status = c.cause
	case status.Signaled() && status.Signal() == c.sent:
		final.Status = guest.StatusStopped
	}
	if status.Signaled() {
		final.Signal = signalName(status.Signal())
	} else {
		code := status.ExitStatus()
		final.ExitCode = &code
	}
	// A KILL that nobody of us sent, or one that the shell reports of its
	// child. Another status shows it only when no other command ran beside.
	killed := status.Signaled() && status.Signal() == syscall.SIGKILL || status.ExitStatus() == 128+int(syscall.SIGKILL)
	final.OOMKilled = oom && c.cause == "" && (killed || alone)
	final.EndedUnixMS = s.opts.Now().UnixMilli()
	final.Stdout, final.Stderr = c.out.counts(), c.err.counts()
	c.mu.Unlock()

	// Recorded first and told then: an acknowledged result is not lost.
	if err := s.journal.End(c.id, runOutcome{Command: &final}); err != nil {
		s.opts.Log.Error("end of command not recorded", "call_id", c.id, "error", err)
	}
	c.mu.Lock()
	c.state = final
	c.mu.Unlock()
	c.out.release()
	c.err.release()
	close(c.done)
}

// endRunning takes one from the count of running commands. It tells whether
// that was the only one.
func (s *Supervisor) endRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	return s.running == 0
}

// await waits for the end, up to d or the end of ctx.
func (c *command) await(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// snapshot is the state now, with the counts of the streams.
func (c *command) snapshot() guest.Command {
	c.mu.Lock()
	state := c.state
	c.mu.Unlock()
	state.Stdout, state.Stderr = c.out.counts(), c.err.counts()
	state.OutputHeld = state.Status.Final() && (c.out.open() || c.err.open())
	return state
}

func (c *command) info() guest.CommandInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return guest.CommandInfo{
		CallID: c.id, Command: c.text, Status: c.state.Status, StartedUnixMS: c.state.StartedUnixMS,
	}
}

// restored makes the command of an earlier life from its journal entry.
func (s *Supervisor) restored(e journal.Entry) *command {
	c := &command{id: e.ID, seq: e.Seq, tag: 0, started: make(chan struct{}), done: make(chan struct{})}
	close(c.started)
	close(c.done)
	var detail runDetail
	_ = json.Unmarshal(e.Detail, &detail)
	c.text = detail.Command
	c.state = guest.Command{CallID: e.ID, Status: guest.StatusLost, StartedUnixMS: e.UnixMS}
	var out runOutcome
	if e.State == journal.Ended && json.Unmarshal(e.Outcome, &out) == nil {
		c.startErr = out.Error
		if out.Command != nil {
			c.state = *out.Command
		}
	}
	c.out = s.logs.restore(e.Seq, guest.Stdout, c.state.Stdout)
	c.err = s.logs.restore(e.Seq, guest.Stderr, c.state.Stderr)
	return c
}

// signalName is the name without SIG, as everywhere on the wire.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); len(name) > 3 {
		return name[3:]
	}
	return sig.String()
}
