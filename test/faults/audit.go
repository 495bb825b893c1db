package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// auditor holds a session against its record.
type auditor struct {
	caller *caller
	engine *engine
	found  *findings
	asked  atomic.Int64
	// fullDisk says that disks get full in this round: a command may find no room.
	fullDisk bool
}

// session checks all that is known of a session: first its answers, so that what
// a repeat does again is seen in the files. An error is a call without an answer.
func (a *auditor) session(ctx context.Context, s *record) error {
	gone, err := a.isLost(ctx, s)
	if err != nil || gone {
		return err
	}
	for _, k := range s.acks {
		r, err := a.caller.call(ctx, k.callID, k.tool, k.args)
		if err != nil {
			return err
		}
		a.same(s, k, answer{Result: harness.Result{Structured: k.result}}, r)
	}
	for _, o := range s.outputs {
		again, err := a.readAll(ctx, s, o.commandID, a.callID())
		if err != nil {
			return err
		}
		if again != nil && *again != o {
			a.found.lost("session %s: output of %s was %+v and is %+v", s.id, o.commandID, o, *again)
		}
	}
	if err := a.files(ctx, s); err != nil {
		return err
	}
	a.processes(ctx, s)
	return nil
}

func (a *auditor) callID() string { return fmt.Sprintf("audit-%d", a.asked.Add(1)) }

// isLost tells whether a session is lost for a reason, which answers nothing.
func (a *auditor) isLost(ctx context.Context, s *record) (bool, error) {
	r, err := a.caller.call(ctx, a.callID(), "get_session", harness.Args{"session_id": s.id})
	switch {
	case err != nil:
		return false, err
	case r.code != "":
		return false, fmt.Errorf("get_session: %s", r.Text)
	case r.Str("status") == session.StatusEnded:
		return false, fmt.Errorf("it ended by itself: %s", r.Text)
	case r.Str("status") != session.StatusLost:
		return false, nil
	}
	if !s.ledger.shaken() {
		a.found.lost("session %s is lost though nobody removed its container: %s", s.id, r.Text)
	}
	return true, nil
}

// same compares two answers to one call.
func (a *auditor) same(s *record, k ack, first, again answer) {
	want, got := told(k.tool, first.Structured), told(k.tool, again.Structured)
	switch {
	case first.code != "" || want["status"] == session.CommandRunning:
		return // nothing was promised, or it was, and has ended meanwhile
	case again.code == session.Lost && s.ledger.shaken():
		return // removed in this moment
	case again.code != "":
		a.found.lost("session %s: %s %s was answered with %v, and again with %s", s.id, k.tool, k.callID, want, again.Text)
	case !reflect.DeepEqual(want, got):
		a.found.lost("session %s: %s %s was answered with %v, and again with %v", s.id, k.tool, k.callID, want, got)
	}
}

// told is the part of an answer that does not change with the time of asking: a
// note tells what happened to the sandbox meanwhile.
func told(tool string, result map[string]any) map[string]any {
	if tool == "start_session" {
		return map[string]any{"session_id": result["session_id"]}
	}
	result = maps.Clone(result)
	delete(result, "note")
	return result
}

// readAll reads all output of a command; nil when the sandbox is lost.
func (a *auditor) readAll(ctx context.Context, s *record, commandID, callID string) (*output, error) {
	r, err := a.caller.call(ctx, callID, "read_output", harness.Args{"session_id": s.id, "command_id": commandID})
	if err != nil {
		return nil, err
	}
	if r.code != "" {
		if r.code != session.Lost || !s.ledger.shaken() {
			a.found.lost("session %s: the output of %s cannot be read: %s", s.id, commandID, r.Text)
		}
		return nil, nil
	}
	return &output{commandID, r.Str("status"), r.Str("data"), r.Num("exit_code")}, nil
}

// files counts the lines.
func (a *auditor) files(ctx context.Context, s *record) error {
	text := fmt.Sprintf("cat %s %s %s 2>/dev/null | grep -vx %s; true", appended, echoed, edited, editMark)
	epoch := s.ledger.now() // to see whether the container goes meanwhile
	r, err := a.caller.call(ctx, a.callID(), "run_command", harness.Args{"session_id": s.id, "command": text, "max_output_bytes": 262144})
	switch {
	case err != nil:
		return err
	case r.code == session.Lost && s.ledger.shaken(), r.Str("status") == session.CommandLost:
		return nil // it died under this very command; what is there, a later audit sees
	case a.fullDisk && (r.code == session.ResourceExhausted || r.Structured["truncated"] == true):
		sleep(ctx, time.Second) // there is space again in a moment
		return a.files(ctx, s)
	case r.code != "" || r.Str("status") != session.CommandExited || r.Structured["truncated"] == true:
		return fmt.Errorf("its files cannot be read: %s", r.Text)
	}
	doubles, lost := s.ledger.compare(r.Str("stdout"))
	for _, d := range doubles {
		a.found.double("session %s: %s", s.id, d)
	}
	if s.ledger.now() != epoch {
		return nil
	}
	for _, l := range lost {
		a.found.lost("session %s: %s", s.id, l)
	}
	return nil
}

// processes looks for what commands left that have ended.
func (a *auditor) processes(ctx context.Context, s *record) {
	running := a.engine.processes(ctx, s.id)
	for _, mark := range s.marks {
		for _, args := range running {
			if args == "sleep "+mark {
				a.found.orphan("session %s: the process %q of a command that has ended", s.id, args)
			}
		}
	}
}
