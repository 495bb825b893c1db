package workflows

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// listen receives signals as long as the run lives. ReceiveAsync drops a signal
// that cannot be decoded; Receive would wait for the next of its kind and leave
// the others unheard.
func (r *run) listen(ctx workflow.Context) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		sel := workflow.NewSelector(ctx)
		sel.AddReceive(workflow.GetSignalChannel(ctx, session.SignalEnd), func(ch workflow.ReceiveChannel, _ bool) {
			var s session.End
			if ch.ReceiveAsync(&s) {
				r.onEndSignal(s)
			}
		})
		sel.AddReceive(workflow.GetSignalChannel(ctx, session.SignalTouch), func(ch workflow.ReceiveChannel, _ bool) {
			ch.ReceiveAsync(nil)
			r.st.LastActivity = workflow.Now(ctx)
		})
		sel.AddReceive(workflow.GetSignalChannel(ctx, session.SignalInterrupt), func(ch workflow.ReceiveChannel, _ bool) {
			var s session.Interrupt
			if ch.ReceiveAsync(&s) {
				r.onInterrupt(ctx, s)
			}
		})
		for {
			sel.Select(ctx)
		}
	})
}

// drainSignals takes the signals that arrived while the run came to its end: a
// new run would not see them.
func (r *run) drainSignals(ctx workflow.Context) {
	var end session.End
	for workflow.GetSignalChannel(ctx, session.SignalEnd).ReceiveAsync(&end) {
		r.onEndSignal(end)
	}
	for workflow.GetSignalChannel(ctx, session.SignalTouch).ReceiveAsync(nil) {
		r.st.LastActivity = workflow.Now(ctx)
	}
	var i session.Interrupt
	for workflow.GetSignalChannel(ctx, session.SignalInterrupt).ReceiveAsync(&i) {
		r.onInterrupt(ctx, i)
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
