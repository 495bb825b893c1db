package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
)

// kind is a way in which something breaks. strike breaks it, heals it, and gives
// the moment from which recovery counts, and the session that it was about, if it
// was one.
type kind struct {
	name   string
	own    bool // only with an engine of our own
	strike func(*nemesis, context.Context, draw) (since time.Time, s *record, err error)
}

// draw is what the seed decides of a fault.
type draw struct {
	kind   kind
	gap    time.Duration // before it
	down   time.Duration // until what was killed is started again
	frozen time.Duration // over timeouts: heartbeats have 2 s, workflow tasks 3 s
	slot   int           // whose session
}

func kinds() []kind {
	return []kind{
		{name: "kill-server", strike: (*nemesis).killServer},
		{name: "kill-worker", strike: (*nemesis).killWorker},
		{name: "kill-temporal", strike: (*nemesis).killTemporal},
		{name: "kill-all", strike: (*nemesis).killAll},
		{name: "freeze-server", strike: freeze(func(l *lab) *process { return l.server })},
		{name: "freeze-worker", strike: freeze(func(l *lab) *process { return l.worker })},
		{name: "freeze-temporal", strike: freeze(func(l *lab) *process { return l.temporal })},
		{name: "kill-container", strike: inSession((*engine).kill)},
		{name: "remove-container", strike: inSession((*engine).remove)},
		{name: "cut-stream", strike: inSession((*engine).cut)},
		{name: "kill-dockerd", own: true, strike: (*nemesis).killEngine},
		{name: "freeze-dockerd", own: true, strike: freeze(func(l *lab) *process { return l.engine.process })},
		{name: "fill-disk", own: true, strike: (*nemesis).fillDisk},
	}
}

func kindNames(own bool) (names []string) {
	for _, k := range kinds() {
		if own || !k.own {
			names = append(names, k.name)
		}
	}
	return names
}

func chosenKinds(o options) ([]kind, error) {
	all := slices.DeleteFunc(kinds(), func(k kind) bool { return k.own && !o.dockerd })
	if o.kinds == "" {
		return all, nil
	}
	var chosen []kind
	for name := range strings.SplitSeq(o.kinds, ",") {
		i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--kinds: %q is none of %s", name, strings.Join(kindNames(o.dockerd), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// nemesis breaks one thing at a time, and waits until the system works again.
type nemesis struct {
	lab    *lab
	engine *engine
	book   *book
	tally  *tally
	report *Report
	rng    *rand.Rand
	kinds  []kind
	bag    []kind // of the kinds, in an order drawn; empty is drawn anew
	slots  int
}

// recoveryTimeout bounds the wait for a success after a fault.
const recoveryTimeout = 90 * time.Second

// rage goes on until it has struck most times (0 is no bound) or load is over.
// When it returns, everything runs. An error is of this program or the machine,
// or a part that cannot be started again.
func (n *nemesis) rage(ctx, load context.Context, most int) error {
	for struck := 0; most == 0 || struck < most; struck++ {
		d := n.draw()
		select {
		case <-load.Done():
			return nil
		case <-time.After(d.gap):
		}
		since, s, err := d.kind.strike(n, ctx, d)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errNoContainer):
			n.report.miss(d.kind.name)
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", d.kind.name, err)
		}
		n.report.struck(d.kind.name)
		if !n.await(ctx, d, since, s) {
			return fmt.Errorf("%s: no call succeeded within %s", d.kind.name, recoveryTimeout)
		}
	}
	return nil
}

// await waits for the next success, on the session that was struck if it was
// one; that may never come, as its agent may leave it. It is false when there is
// none at all.
func (n *nemesis) await(ctx context.Context, d draw, since time.Time, s *record) bool {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	sessionID := ""
	if s != nil {
		sessionID = s.id
		go func() {
			select {
			case <-s.gone: // its agent ended it meanwhile
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	took, ok := n.tally.success(ctx, since, sessionID)
	if ok {
		n.report.recovered(d.kind.name, took)
	}
	return ok || s != nil || errors.Is(ctx.Err(), context.Canceled)
}

func (n *nemesis) draw() draw {
	if len(n.bag) == 0 {
		n.bag = slices.Clone(n.kinds)
		n.rng.Shuffle(len(n.bag), func(i, j int) { n.bag[i], n.bag[j] = n.bag[j], n.bag[i] })
	}
	k := n.bag[0]
	n.bag = n.bag[1:]
	return draw{
		kind: k, slot: n.rng.IntN(n.slots),
		gap:    time.Duration(100+n.rng.IntN(1500)) * time.Millisecond,
		down:   time.Duration(n.rng.IntN(1500)) * time.Millisecond,
		frozen: time.Duration(2500+n.rng.IntN(3500)) * time.Millisecond,
	}
}

// sleep is how long something stays broken.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// restart kills a process and starts it again.
func restart(ctx context.Context, p *process, down time.Duration, start func() error) (time.Time, error) {
	p.kill()
	sleep(ctx, down)
	since := time.Now()
	return since, firstOf(start(), p.await(ctx))
}

func (n *nemesis) killServer(ctx context.Context, d draw) (time.Time, *record, error) {
	since, err := restart(ctx, n.lab.server, d.down, n.lab.startServer)
	return since, nil, err
}

func (n *nemesis) killWorker(ctx context.Context, d draw) (time.Time, *record, error) {
	since, err := restart(ctx, n.lab.worker, d.down, n.lab.startWorker)
	return since, nil, err
}

func (n *nemesis) killTemporal(ctx context.Context, d draw) (time.Time, *record, error) {
	since, err := restart(ctx, n.lab.temporal, d.down, n.lab.startTemporal)
	return since, nil, err
}

// killAll is a machine that goes down, but for its engine.
func (n *nemesis) killAll(ctx context.Context, d draw) (time.Time, *record, error) {
	n.lab.server.kill()
	n.lab.worker.kill()
	since, err := restart(ctx, n.lab.temporal, d.down, n.lab.startTemporal)
	return since, nil, firstOf(err, n.lab.startWorker(), n.lab.startServer(), n.lab.worker.await(ctx), n.lab.server.await(ctx))
}

func freeze(which func(*lab) *process) func(*nemesis, context.Context, draw) (time.Time, *record, error) {
	return func(n *nemesis, ctx context.Context, d draw) (time.Time, *record, error) {
		p := which(n.lab)
		p.signal(syscall.SIGSTOP)
		sleep(ctx, d.frozen)
		since := time.Now()
		p.signal(syscall.SIGCONT)
		return since, nil, nil
	}
}

// inSession strikes one sandbox.
func inSession(strike func(*engine, context.Context, string) error) func(*nemesis, context.Context, draw) (time.Time, *record, error) {
	return func(n *nemesis, ctx context.Context, d draw) (time.Time, *record, error) {
		s := n.book.at(d.slot)
		if s == nil {
			return time.Time{}, nil, errNoContainer
		}
		if d.kind.name == "remove-container" {
			s.ledger.shake()
			defer s.ledger.shake()
		}
		since := time.Now()
		err := strike(n.engine, ctx, s.id)
		if errdefs.IsNotFound(err) || errdefs.IsConflict(err) { // it has stopped, or is gone, in this moment
			err = errNoContainer
		}
		return since, s, err
	}
}
