package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// listen receives signals as long as the run lives.
func (r *run) listen(ctx workflow.Context) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		sel := workflow.NewSelector(ctx)
		sel.AddReceive(workflow.GetSignalChannel(ctx, session.SignalEnd), func(ch workflow.ReceiveChannel, _ bool) {
			var s session.End
			ch.Receive(ctx, &s)
			r.onEndSignal(s)
		})
		sel.AddReceive(workflow.GetSignalChannel(ctx, session.SignalTouch), func(ch workflow.ReceiveChannel, _ bool) {
			ch.Receive(ctx, nil)
			r.st.LastActivity = workflow.Now(ctx)
		})
		sel.AddReceive(workflow.GetSignalChannel(ctx, session.SignalInterrupt), func(ch workflow.ReceiveChannel, _ bool) {
			var s session.Interrupt
			ch.Receive(ctx, &s)
			r.onInterrupt(ctx, s)
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
		if i.Owner == r.in.Owner {
			r.rememberInterrupt(i.CallID)
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
	r.rememberInterrupt(s.CallID)
	workflow.Go(ctx, func(ctx workflow.Context) { r.interrupt(ctx, s.CallID) })
}

func (r *run) interrupt(ctx workflow.Context, callID string) {
	bctx, done := r.breakable(ctx, onDrain)
	defer done()
	if r.awaitSandbox(bctx) != nil {
		return // it ends with the session, or the next run sees it in the state
	}
	task := activities.Task[activities.None]{Ref: r.st.Sandbox.Ref, CallID: callID}
	err := workflow.ExecuteActivity(r.host(bctx, deliver("interrupt", 0, r.o.CallBound)), activities.Interrupt, task).Get(bctx, nil)
	if err == nil {
		r.st.Interrupted = slices.DeleteFunc(r.st.Interrupted, func(id string) bool { return id == callID })
	}
}

func (r *run) rememberInterrupt(callID string) {
	if slices.Contains(r.st.Interrupted, callID) {
		return
	}
	r.st.Interrupted = append(r.st.Interrupted, callID)
	if extra := len(r.st.Interrupted) - maxInterrupted; extra > 0 {
		r.st.Interrupted = slices.Delete(r.st.Interrupted, 0, extra)
	}
}
