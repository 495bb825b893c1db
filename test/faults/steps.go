package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// The files that hold the effects. Each has writers of one kind: an edit replaces
// the file, and what the shell appends meanwhile may go to the old one.
const (
	appended = "appended"
	echoed   = "echoed"
	edited   = "edited"
	editMark = "END"
)

// send sends a call, or twice the same at once, and notes the answer.
func (a *agent) send(ctx context.Context, callID, tool string, args harness.Args, twice bool) (answer, error) {
	s := a.s
	args["session_id"] = s.id
	var second answer
	var secondErr error
	var other sync.WaitGroup
	if twice {
		other.Go(func() { second, secondErr = a.caller.call(ctx, callID, tool, args) })
	}
	first, err := a.caller.call(ctx, callID, tool, args)
	other.Wait()
	if err != nil || secondErr != nil {
		return first, firstOf(err, secondErr)
	}
	if twice {
		a.auditor.same(s, ack{callID, tool, args, first.Structured}, first, second)
	}
	switch first.code {
	case "":
		s.acknowledge(ack{callID, tool, args, first.Structured})
	case session.Lost:
		s.mu.Lock()
		s.lostCalls++
		s.mu.Unlock()
	case session.FailedPrecondition:
		if strings.Contains(first.Text, "the session has ended") {
			return first, fmt.Errorf("it ended by itself: %s", first.Text)
		}
	case session.NotFound:
		if tool != "edit_file" { // its file may be gone with a removed container
			return first, fmt.Errorf("%s: %s", tool, first.Text)
		}
	default:
	}
	return first, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) appendLine(id string, twice bool) func(context.Context) error {
	epoch := a.s.ledger.begin(id)
	return func(ctx context.Context) error {
		r, err := a.send(ctx, id, "write_file", harness.Args{"path": appended, "content": id + "\n", "append": true}, twice)
		if err == nil {
			a.s.ledger.settle(id, epoch, effect(r.code))
		}
		return err
	}
}

func (a *agent) edit(id string, twice bool) func(context.Context) error {
	epoch := a.s.ledger.begin(id)
	return func(ctx context.Context) error {
		r, err := a.send(ctx, id, "edit_file", harness.Args{"path": edited, "old_str": editMark, "new_str": id + "\n" + editMark}, twice)
		if err == nil {
			a.s.ledger.settle(id, epoch, effect(r.code))
		}
		return err
	}
}

// command leaves a line and ends with a code of its own, after some tenths of a
// second.
func (a *agent) command(id string, twice bool, tenths int) func(context.Context) error {
	epoch, exit := a.s.ledger.begin(id), 10+tenths
	return func(ctx context.Context) error {
		text := fmt.Sprintf("echo %s >> %s; sleep 0.%d; echo out %s; exit %d", id, echoed, tenths, id, exit)
		r, err := a.send(ctx, id, "run_command", harness.Args{"command": text}, twice)
		if err != nil {
			return err
		}
		p := effect(r.code)
		switch status := r.Str("status"); {
		case r.code != "":
		case status == session.CommandLost:
			p = unknown
		case status == session.CommandExited && r.Num("exit_code") == exit && r.Str("stdout") == "out "+id+"\n":
		case a.auditor.fullDisk && status == session.CommandExited && (r.Str("stderr") != "" || r.Structured["truncated"] == true):
			p = unknown // no space for the line, or for the output's log
		default:
			a.found.lost("session %s: %s gave %s, exit code %d and output %q", a.s.id, id, status, r.Num("exit_code"), r.Str("stdout"))
		}
		a.s.ledger.settle(id, epoch, p)
		return nil
	}
}

// background starts a command and reads it to its end.
func (a *agent) background(id string) func(context.Context) error {
	epoch := a.s.ledger.begin(id)
	return func(ctx context.Context) error {
		text := fmt.Sprintf("echo %s >> %s; for i in 1 2 3 4 5; do echo %s $i; sleep 0.2; done; exit 7", id, echoed, id)
		r, err := a.send(ctx, id, "run_command", harness.Args{"command": text, "wait_seconds": 0}, false)
		if err != nil || r.code != "" {
			a.s.ledger.settle(id, epoch, effect(r.code))
			return err
		}
		o, err := a.readToEnd(ctx, id)
		if err != nil || o == nil {
			return err
		}
		want := strings.Builder{}
		for i := range 5 {
			fmt.Fprintf(&want, "%s %d\n", id, i+1)
		}
		switch {
		case o.status == session.CommandExited && o.exitCode == 7 && o.data == want.String():
			if !a.auditor.fullDisk {
				a.s.ledger.settle(id, epoch, present)
			}
		case o.status == session.CommandLost && strings.HasPrefix(want.String(), o.data):
		case a.auditor.fullDisk:
		default:
			a.found.lost("session %s: background %s gave %s, exit code %d and output %q", a.s.id, id, o.status, o.exitCode, o.data)
		}
		a.s.read(*o)
		return nil
	}
}

// readToEnd reads a command's output until it has ended; nil when the sandbox
// cannot be asked.
func (a *agent) readToEnd(ctx context.Context, commandID string) (*output, error) {
	offset := 0
	for n := 0; ; n++ {
		r, err := a.caller.call(ctx, fmt.Sprintf("%s-read-%d", commandID, n), "read_output",
			harness.Args{"session_id": a.s.id, "command_id": commandID, "offset": offset, "wait_seconds": 2})
		if err != nil || r.code != "" {
			return nil, err
		}
		if r.Str("status") == session.CommandRunning {
			offset = r.Num("next_offset")
			continue
		}
		return a.auditor.readAll(ctx, a.s, commandID, fmt.Sprintf("%s-all-%d", commandID, n))
	}
}

// mark is a number of seconds that no other command sleeps.
func (a *agent) mark(id string) string {
	var generation, n int
	_, _ = fmt.Sscanf(id[strings.Index(id, "-")+1:], "%d-%d", &generation, &n)
	return strconv.Itoa(1_000_000_000 + a.slot*10_000_000 + generation*10_000 + n)
}

// timeout is a tree of processes that does not end in time.
func (a *agent) timeout(id string) func(context.Context) error {
	epoch, mark := a.s.ledger.begin(id), a.mark(id)
	return func(ctx context.Context) error {
		text := fmt.Sprintf("echo %s >> %s; setsid sleep %s & sleep %s", id, echoed, mark, mark)
		r, err := a.send(ctx, id, "run_command", harness.Args{"command": text, "timeout_seconds": 1}, false)
		if err != nil {
			return err
		}
		if r.code == "" {
			a.s.mustBeGone(mark)
		}
		switch status := r.Str("status"); {
		case r.code != "", status == session.CommandLost:
		case status != session.CommandTimedOut:
			a.found.lost("session %s: %s should have timed out: %s", a.s.id, id, r.Text)
		}
		a.s.ledger.settle(id, epoch, min(effect(r.code), unknown)) // it may be cut off before it writes
		return nil
	}
}

// stopped is a tree of processes in the background that is stopped.
func (a *agent) stopped(id string) func(context.Context) error {
	epoch, mark := a.s.ledger.begin(id), a.mark(id)
	return func(ctx context.Context) error {
		text := fmt.Sprintf("echo %s >> %s; setsid sleep %s & exec sleep %s", id, echoed, mark, mark)
		r, err := a.send(ctx, id, "run_command", harness.Args{"command": text, "wait_seconds": 0}, false)
		if err != nil {
			return err
		}
		a.s.ledger.settle(id, epoch, min(effect(r.code), unknown)) // it may be stopped before it writes
		if r.code != "" {
			return nil
		}
		r, err = a.send(ctx, id+"-stop", "stop_command", harness.Args{"command_id": id, "signal": "TERM"}, false)
		if err == nil && r.code == "" {
			a.s.mustBeGone(mark)
		}
		return err
	}
}

// snapshot is taken while other calls of the batch are in flight.
func (a *agent) snapshot() func(context.Context) error {
	id := a.s.nextCallID(a.slot, a.generation)
	lines, epoch := a.s.ledger.copied()
	return func(ctx context.Context) error {
		r, err := a.send(ctx, id, "snapshot", harness.Args{"name": id}, false)
		if err != nil || r.code != "" {
			return err
		}
		s := snapshot{r.Str("snapshot_id"), a.s.ledger.kept(lines, epoch)}
		a.book.keep(s.id)
		a.s.snapshots = append(a.s.snapshots, s)
		return nil
	}
}

// restore goes back to one of the snapshots.
func (a *agent) restore(ctx context.Context) error {
	id, s := a.s.nextCallID(a.slot, a.generation), a.s.snapshots[a.rng.IntN(len(a.s.snapshots))]
	epoch := a.s.ledger.now()
	r, err := a.send(ctx, id, "restore_snapshot", harness.Args{"snapshot_id": s.id}, false)
	switch {
	case err != nil:
		return err
	case r.code == "":
		a.s.ledger.restored(s.lines, epoch)
	default:
		a.s.ledger.shake() // it may have happened, and a lost session may be left
	}
	return nil
}

// fork starts a session from a snapshot, uses it for a moment and ends it.
func (a *agent) fork(ctx context.Context) error {
	parent, parentSteps := a.s, a.steps
	s := parent.snapshots[a.rng.IntN(len(parent.snapshots))]
	lines, _ := newLedger(s.lines).copied()
	a.s = nil
	err := a.start(ctx, s.id, lines)
	if err == nil && a.s != nil {
		err = firstOf(a.batch(ctx), a.look(ctx))
		if err == nil && a.s != nil {
			err = a.end(ctx)
		}
	}
	if err != nil {
		return err
	}
	a.s, a.steps = parent, parentSteps
	a.book.open(a.slot, parent)
	return nil
}
