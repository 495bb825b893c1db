package workflows

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// listen receives signals as long as the run lives. It does not block on a
// channel: a signal would go to the blocked receiver, which may not have its turn
// before the run continues as new, and be lost. So signals stay in their
// channels, where continueAsNew finds them too.
func (r *run) listen(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx) // a cancelled workflow hears until it has ended
	workflow.Go(ctx, func(ctx workflow.Context) {
		for workflow.Await(ctx, func() bool { return r.signalled(ctx) }) == nil {
			r.takeSignals(ctx)
		}
	})
}

// signalled tells whether signals wait to be taken.
func (r *run) signalled(ctx workflow.Context) bool {
	for _, name := range []string{session.SignalEnd, session.SignalTouch, session.SignalInterrupt, session.SignalLook} {
		if workflow.GetSignalChannel(ctx, name).Len() > 0 {
			return true
		}
	}
	return false
}

// takeSignals takes the signals that have arrived. One that cannot be decoded is
// dropped.
func (r *run) takeSignals(ctx workflow.Context) {
	for ch := workflow.GetSignalChannel(ctx, session.SignalEnd); ch.Len() > 0; {
		var s session.End
		if ch.ReceiveAsync(&s) {
			r.onEndSignal(s)
		}
	}
	for ch := workflow.GetSignalChannel(ctx, session.SignalTouch); ch.Len() > 0; {
		ch.ReceiveAsync(nil)
		r.st.LastActivity = workflow.Now(ctx)
	}
	for ch := workflow.GetSignalChannel(ctx, session.SignalInterrupt); ch.Len() > 0; {
		var s session.Interrupt
		if ch.ReceiveAsync(&s) {
			r.onInterrupt(ctx, s)
		}
	}
	for ch := workflow.GetSignalChannel(ctx, session.SignalLook); ch.Len() > 0; {
		var s session.Look
		if ch.ReceiveAsync(&s) && s.Incarnation == r.st.Sandbox.Ref.Incarnation {
			r.look(ctx)
		}
	}
}

func (r *run) onEndSignal(s session.End) {
	if s.Owner == r.in.Owner {
		r.askEnd(s.Reason)
	}
}

// onInterrupt ends a call's command, whether it runs, is on its way, or has not
// been sent yet: the guest refuses a call ID that it was told to.
func (r *run) onInterrupt(ctx workflow.Context, s session.Interrupt) {
	if s.Owner != r.in.Owner || session.CheckCallID(s.CallID) != nil {
		return
	}
	if slices.Contains(r.st.Interrupted, s.CallID) {
		return // at work already
	}
	r.st.Interrupted = append(r.st.Interrupted, s.CallID)
	if extra := len(r.st.Interrupted) - maxInterrupted; extra > 0 {
		r.st.Interrupted = slices.Delete(r.st.Interrupted, 0, extra)
	}
	r.interrupt(ctx, s.CallID)
}

// interrupt sees to it in the background. Only the end of the run leaves it
// undone: the next run, or the end of the session, goes on with it.
func (r *run) interrupt(ctx workflow.Context, callID string) {
	if r.draining || r.ending {
		return
	}
	r.pending++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { r.pending-- }()
		_, err := toGuest[activities.None, activities.None](ctx, r, call{id: callID},
			request{activity: activities.Interrupt, summary: summary("interrupt", callID), far: true}, activities.None{})
		if !temporal.IsCanceledError(err) {
			r.st.Interrupted = slices.DeleteFunc(r.st.Interrupted, func(id string) bool { return id == callID })
		}
	})
}
