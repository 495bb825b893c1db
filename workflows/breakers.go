package workflows

import "go.temporal.io/sdk/workflow"

// breakOn says when a wait is broken off.
type breakOn int

const (
	// onDrain breaks when the run continues as new, and when the session ends:
	// for calls that another run can take up by their call ID.
	onDrain breakOn = iota
	// onEnd breaks only when the session ends: for changes of the sandbox that
	// had better be finished.
	onEnd
)

type breaker struct {
	on     breakOn
	cancel workflow.CancelFunc
}

// breakable gives a context whose waits the run can break off. Call done when
// they are over.
func (r *run) breakable(ctx workflow.Context, on breakOn) (_ workflow.Context, done func()) {
	bctx, cancel := workflow.WithCancel(ctx)
	if r.ending || (r.draining && on == onDrain) {
		cancel()
		return bctx, func() {}
	}
	b := &breaker{on, cancel}
	r.breakers = append(r.breakers, b)
	return bctx, func() {
		for i := range r.breakers {
			if r.breakers[i] == b {
				r.breakers = append(r.breakers[:i:i], r.breakers[i+1:]...)
				break
			}
		}
	}
}

// breakWaits breaks off the waits of one kind.
func (r *run) breakWaits(on breakOn) {
	for _, b := range r.breakers {
		if b.on == on {
			b.cancel()
		}
	}
}
