package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

const (
	batch = 5 // calls of one agent at a time, at most
	// A session has so many steps, and then most often another takes its place.
	stepsOfSession = 25
	// maxSnapshots of one session: each is an image.
	maxSnapshots = 3
)

// agent uses one session after the other. Between two steps it has no call in
// flight.
type agent struct {
	slot, generation int
	rng              *rand.Rand
	caller           *caller
	book             *book
	auditor          *auditor
	found            *findings

	s     *record
	steps int
}

// work goes on until stop is closed. ctx is the end of all patience: a call
// without an answer by then makes the session a stuck one.
func (a *agent) work(ctx context.Context, stop <-chan struct{}) {
	for ctx.Err() == nil {
		select {
		case <-stop:
			return
		default:
		}
		err := a.step(ctx)
		if errors.Is(context.Cause(ctx), context.Canceled) {
			return // told to end
		}
		if err != nil {
			a.found.stuck("agent %d, session %s: %v", a.slot, a.id(), err)
			a.s = nil // the next step starts another; the checks look at this one
		}
	}
}

func (a *agent) id() string {
	if a.s == nil {
		return "(starting)"
	}
	return a.s.id
}

func (a *agent) step(ctx context.Context) error {
	if a.s == nil {
		return a.start(ctx, "", nil)
	}
	a.steps++
	dice := a.rng.IntN(100)
	var err error
	switch {
	case a.steps > stepsOfSession && dice < 50:
		err = a.end(ctx)
	case dice < 8 && len(a.s.snapshots) > 0:
		err = a.restore(ctx)
	case dice < 12 && len(a.s.snapshots) > 0:
		err = a.fork(ctx)
	default:
		err = a.batch(ctx)
	}
	if err != nil || a.s == nil {
		return err
	}
	return a.look(ctx)
}

// batch sends some calls at once, a snapshot among them now and then, and waits
// for all answers.
func (a *agent) batch(ctx context.Context) error {
	var ops []func(context.Context) error
	for range 1 + a.rng.IntN(batch) {
		ops = append(ops, a.pick())
	}
	if len(a.s.snapshots) < maxSnapshots && a.rng.IntN(8) == 0 {
		ops = append(ops, a.snapshot()) // last: it knows of all that have begun
	}
	var all sync.WaitGroup
	errs := make(chan error, len(ops))
	for _, op := range ops {
		all.Go(func() { errs <- op(ctx) })
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// pick draws a call and notes that it begins.
func (a *agent) pick() func(context.Context) error {
	id := a.s.nextCallID(a.slot, a.generation)
	twice := a.rng.IntN(8) == 0
	switch dice := a.rng.IntN(100); {
	case dice < 30:
		return a.appendLine(id+"-append", twice)
	case dice < 62:
		return a.command(id+"-command", twice, a.rng.IntN(4))
	case dice < 78:
		return a.edit(id+"-edit", twice)
	case dice < 90:
		return a.background(id + "-background")
	case dice < 94:
		return a.timeout(id + "-timeout")
	default:
		return a.stopped(id + "-stopped")
	}
}

// start starts a session, from a snapshot if one is given.
func (a *agent) start(ctx context.Context, snapshotID string, lines map[string]presence) error {
	a.generation++
	callID := fmt.Sprintf("a%d-%d-start", a.slot, a.generation)
	args := harness.Args{"name": callID, "on_loss": []string{session.OnLossRestore, session.OnLossFail}[a.rng.IntN(2)]}
	if snapshotID != "" {
		args["snapshot_id"] = snapshotID
	}
	r, err := a.caller.call(ctx, callID, "start_session", args)
	if err != nil {
		return err
	}
	if r.code != "" {
		return nil // refused: the next step starts another
	}
	a.s = &record{id: r.Str("session_id"), ledger: newLedger(lines), gone: make(chan struct{})}
	a.s.acknowledge(ack{callID, "start_session", args, map[string]any{"session_id": a.s.id}})
	a.steps = 0
	a.book.open(a.slot, a.s)
	if snapshotID != "" {
		return nil
	}
	return a.prepare(ctx)
}

// prepare makes the file that edits change.
func (a *agent) prepare(ctx context.Context) error {
	id := a.s.nextCallID(a.slot, a.generation)
	_, err := a.caller.call(ctx, id, "write_file", harness.Args{"session_id": a.s.id, "path": edited, "content": editMark + "\n"})
	return err
}

// look finds out what it is when calls were answered with Lost.
func (a *agent) look(ctx context.Context) error {
	a.s.mu.Lock()
	lost := a.s.lostCalls
	a.s.lostCalls = 0
	a.s.mu.Unlock()
	if lost == 0 {
		return nil
	}
	id := a.s.nextCallID(a.slot, a.generation)
	r, err := a.caller.call(ctx, id, "get_session", harness.Args{"session_id": a.s.id})
	if err != nil || r.Str("status") != session.StatusLost {
		return err
	}
	if !a.s.ledger.shaken() {
		a.found.lost("session %s is lost though nobody removed its container: %s", a.s.id, r.Text)
	}
	a.s.ledger.shake()
	if len(a.s.snapshots) > 0 {
		return a.restore(ctx)
	}
	return a.leave(ctx)
}

// end checks the session, under whatever goes on, and ends it.
func (a *agent) end(ctx context.Context) error {
	if err := a.auditor.session(ctx, a.s); err != nil {
		return err
	}
	return a.leave(ctx)
}

func (a *agent) leave(ctx context.Context) error {
	err := endSession(ctx, a.caller, a.book, a.s, a.found)
	if err == nil {
		a.s = nil
	}
	return err
}

// endSession ends a session, after which nothing of it may be left.
func endSession(ctx context.Context, c *caller, b *book, s *record, found *findings) error {
	r, err := c.call(ctx, "end-"+s.id, "end_session", harness.Args{"session_id": s.id})
	if err != nil {
		return err
	}
	if r.code != "" {
		found.stuck("session %s does not end: %s", s.id, r.Text)
	}
	b.end(s.id)
	return nil
}
