package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// roundRun is one round at work.
type roundRun struct {
	opts     options
	lab      *lab
	caller   *caller
	book     *book
	found    *findings
	auditor  *auditor
	nemesis  *nemesis
	progress func(string, ...any)
}

// round runs one round and adds it to the report. An error says that it could
// not be finished; what it found until then is in the report all the same.
func round(ctx context.Context, opts options, report *Report, progress func(string, ...any)) (err error) {
	l, err := openLab(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	chosen, err := chosenKinds(opts)
	if err != nil {
		return err
	}
	t, found, b := newTally(), &findings{seed: opts.seed, progress: progress}, newBook()
	c := &caller{harness.NewClient(l.url, l.token), t}
	e := &engine{l.api, l.ours()}
	r := &roundRun{
		opts: opts, lab: l, caller: c, book: b, found: found, progress: progress,
		auditor: &auditor{caller: c, engine: e, found: found, fullDisk: opts.dockerd},
		nemesis: &nemesis{
			lab: l, engine: e, book: b, tally: t, report: report, kinds: chosen, slots: opts.sessions,
			rng: rand.New(rand.NewPCG(opts.seed, 0)), //nolint:gosec // to be repeated, not to be secret
		},
	}
	err = r.run(ctx)
	report.add(found, t, b)
	if ctx.Err() == nil && (err != nil || len(found.texts) > 0) {
		progress("again: %s", again(opts))
	}
	return err
}

func (r *roundRun) run(ctx context.Context) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.progress("faults are over after %d calls: checks", r.caller.tally.count())
	settled, cancel := context.WithTimeout(ctx, r.opts.settle)
	defer cancel()
	for _, s := range r.book.sessions() {
		if err := r.auditor.session(settled, s); err != nil && ctx.Err() == nil {
			r.found.stuck("session %s: %v", s.id, err)
		}
	}
	r.endAll(settled)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.leftovers(ctx)
}

// load has agents and nemesis at work, and then waits until every call has its
// answer.
func (r *roundRun) load(ctx context.Context) error {
	patience, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	stop := make(chan struct{})
	var agents sync.WaitGroup
	for slot := range r.opts.sessions {
		a := &agent{
			slot: slot, caller: r.caller, book: r.book, auditor: r.auditor, found: r.found,
			rng: rand.New(rand.NewPCG(r.opts.seed, uint64(slot)+1)), //nolint:gosec // as above
		}
		agents.Go(func() { a.work(patience, stop) })
	}
	during, over := context.WithTimeout(ctx, r.opts.load)
	err := r.nemesis.rage(ctx, during, r.opts.faults)
	over()
	close(stop)
	settle, cancel := context.WithTimeout(ctx, r.opts.settle)
	defer cancel()
	context.AfterFunc(settle, func() { giveUp(settle.Err()) })
	agents.Wait()
	return err
}

// again is the command that runs a round again.
func again(o options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "make faults FAULTS_FLAGS='--seed %d --rounds 1 --for %s --sessions %d", o.seed, o.load, o.sessions)
	if o.faults > 0 {
		fmt.Fprintf(&b, " --faults %d", o.faults)
	}
	if o.kinds != "" {
		fmt.Fprintf(&b, " --kinds %s", o.kinds)
	}
	if o.dockerd {
		b.WriteString(" --dockerd")
	}
	return b.String() + "'"
}
