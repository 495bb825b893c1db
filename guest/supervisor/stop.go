package supervisor

import (
	"cmp"
	"context"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
)

const (
	// defaultGraceMS is what TERM gives a tree before KILL.
	defaultGraceMS = 2000
	// signalWait is how long the answer to another signal waits for an end.
	signalWait = time.Second
)

// Stop implements guest.API. TERM and KILL end the tree, with what an ended
// command left behind; any other signal is sent, and the answer, up to a second
// later, tells what became of the command.
func (s *Supervisor) Stop(ctx context.Context, req guest.StopRequest) (guest.Command, error) {
	name := strings.TrimPrefix(strings.ToUpper(cmp.Or(req.Signal, "TERM")), "SIG")
	sig := unix.SignalNum("SIG" + name)
	if sig == 0 {
		return guest.Command{}, guest.Errorf(guest.CodeInvalid, "signal %.40q is unknown: use TERM, KILL, INT, HUP, QUIT, USR1, ...", req.Signal)
	}
	if gerr := within("grace_ms", req.GraceMS, guest.MaxWaitMS); gerr != nil {
		return guest.Command{}, gerr
	}
	c, err := s.find(ctx, req.CommandID)
	if err != nil {
		return guest.Command{}, err
	}
	key := journal.Key{ID: req.CallID, Op: opStop, Digest: req.ArgsDigest}
	grace := time.Duration(cmp.Or(req.GraceMS, defaultGraceMS)) * time.Millisecond
	return once(ctx, s, key, func(ctx context.Context) (guest.Command, *guest.Error) {
		if c.child != nil {
			s.stopTree(ctx, c, sig, grace)
		}
		return c.snapshot(), nil
	})
}

func (s *Supervisor) stopTree(ctx context.Context, c *command, sig syscall.Signal, grace time.Duration) {
	wait := signalWait
	switch sig {
	case syscall.SIGTERM:
		done, _ := c.end(guest.StatusStopped)
		s.tracker.terminate(ctx, c.tree(), grace)
		done()
		wait = guest.MaxWaitMS * time.Millisecond
	case syscall.SIGKILL:
		done, _ := c.end(guest.StatusStopped)
		s.tracker.destroy(ctx, c.tree())
		done()
		wait = guest.MaxWaitMS * time.Millisecond
	default:
		c.noteSignal(sig)
		s.tracker.signal(c.tree(), sig)
	}
	c.await(ctx, wait)
}
