package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// runSession is the Session workflow. Handlers are registered before the first
// blocking call, so that no update finds the workflow deaf.
func runSession(ctx workflow.Context, in session.WorkflowInput, o Options) error {
	r, err := newRun(ctx, in, o.recorded(ctx))
	if err != nil {
		return err
	}
	if err := r.registerHandlers(ctx); err != nil {
		return err
	}
	r.listen(ctx)
	if in.State == nil {
		r.start(session.WithCause(ctx, session.CauseStart))
	} else {
		r.resume(ctx)
	}
	if r.live(ctx) {
		return r.continueAsNew(ctx)
	}
	r.end(session.WithCause(ctx, session.SignalEnd))
	return nil
}

// resume goes on with what the run before left.
func (r *run) resume(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, r.details()) // a run's own, unlike search attributes
	for _, id := range r.st.Interrupted {
		r.interrupt(ctx, id)
	}
	if r.st.Look {
		r.look(ctx)
	}
}

// Reasons of an end.
const (
	reasonExpired   = "its lifetime is over"
	reasonCancelled = "its workflow was cancelled"
	reasonIdle      = "it was idle"
)

// live lets the session live until it ends (false) or the run has grown long
// enough to be continued as new (true).
func (r *run) live(ctx workflow.Context) (continues bool) {
	for {
		if r.over() {
			return false
		}
		now := workflow.Now(ctx)
		if !now.Before(r.st.ExpiresAt) {
			r.askEnd(reasonExpired)
			return false
		}
		idleAt := r.st.LastActivity.Add(time.Duration(r.in.Start.IdleTimeoutSeconds) * time.Second)
		if !now.Before(idleAt) && r.calls == 0 {
			if r.idle(ctx) {
				r.askEnd(reasonIdle)
				return false
			}
			continue
		}
		wake := r.st.ExpiresAt
		if r.calls == 0 && idleAt.Before(wake) {
			wake = idleAt
		}
		busy := r.calls > 0
		// The timer is not moved with every call: it wakes too early at times,
		// and then looks again.
		_, err := workflow.AwaitWithTimeout(ctx, wake.Sub(now), func() bool {
			return r.over() || r.long(ctx) || (busy && r.calls == 0)
		})
		if err != nil { // the workflow was cancelled: end in good order
			r.askEnd(reasonCancelled)
			return false
		}
		if !r.over() && r.long(ctx) {
			return true
		}
	}
}

// over tells whether the session is to end.
func (r *run) over() bool { return r.ending }

// long tells whether this run's history is due to be continued in a new one.
func (r *run) long(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	if r.o.EventsPerRun > 0 && info.GetCurrentHistoryLength() > r.o.EventsPerRun {
		return true
	}
	return info.GetContinueAsNewSuggested()
}

// idle asks the sandbox whether commands run, which counts as activity. A
// sandbox that cannot be asked is not idle but in trouble, and stays until its
// lifetime ends.
func (r *run) idle(ctx workflow.Context) bool {
	if r.st.Status != session.StatusRunning {
		return true
	}
	var rep activities.UsageReport
	changes := r.changes
	bctx, done := r.breakable(ctx, onEnd)
	defer done()
	err := workflow.ExecuteActivity(r.host(bctx, quick("idle check")), activities.DescribeUsage, r.st.Sandbox.Ref).Get(bctx, &rep)
	if session.FailureType(err) == session.FailureSandboxGone {
		r.recover(ctx, changes)
	}
	if r.calls > 0 || r.ending {
		return false
	}
	if err != nil || len(rep.Commands) > 0 {
		r.st.LastActivity = workflow.Now(ctx)
		return false
	}
	idleAt := r.st.LastActivity.Add(time.Duration(r.in.Start.IdleTimeoutSeconds) * time.Second)
	return !workflow.Now(ctx).Before(idleAt)
}

// askEnd makes the session end: new calls are refused, waits are broken off.
func (r *run) askEnd(reason string) {
	if r.ending {
		return
	}
	r.ending = true
	r.st.Reason = reason
	r.breakWaits(onDrain)
	r.breakWaits(onEnd)
}

// end is the one door out: whatever the reason, the sandbox and all that
// belongs to it is removed before the workflow closes.
func (r *run) end(ctx workflow.Context) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	r.setStatus(ctx, session.StatusEnding)
	r.awaitHandlers(ctx)
	if r.st.Place.Queue != "" {
		err := workflow.ExecuteActivity(r.host(ctx, cleanup("remove sandbox")), activities.RemoveSession, r.in.SessionID).Get(ctx, nil)
		if err != nil {
			workflow.GetLogger(ctx).Error("sandbox was not removed; the reaper will", session.KeySession, r.in.SessionID, "error", err)
		}
	}
	r.setStatus(ctx, session.StatusEnded)
	r.awaitHandlers(ctx)
}

// continueAsNew hands over to a new run. Validators answer "draining", waits
// end with "reattach", and the client sends those calls again to the new run.
func (r *run) continueAsNew(ctx workflow.Context) error {
	r.draining = true
	r.breakWaits(onDrain)
	r.awaitHandlers(ctx)
	r.takeSignals(ctx)
	if ctx.Err() != nil { // a new run would not know
		r.askEnd(reasonCancelled)
	}
	if r.ending { // the end came while handlers finished
		r.end(session.WithCause(ctx, session.SignalEnd))
		return nil
	}
	next, err := r.carry()
	if err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, session.WorkflowType, next)
}

// awaitHandlers waits until nothing is at work. Closing before would make
// accepted updates fail, and leave behind what is still being made.
func (r *run) awaitHandlers(ctx workflow.Context) {
	_ = workflow.Await(ctx, func() bool {
		return workflow.AllHandlersFinished(ctx) && r.pending == 0 && !r.busy
	})
}

var (
	attrStatus = temporal.NewSearchAttributeKeyKeyword(session.AttrStatus)
	attrImage  = temporal.NewSearchAttributeKeyKeyword(session.AttrImage)
	attrHost   = temporal.NewSearchAttributeKeyKeyword(session.AttrHost)
)

// setStatus changes the status and shows it in Temporal's UI and listings.
func (r *run) setStatus(ctx workflow.Context, status string) {
	r.st.Status = status
	err := workflow.UpsertTypedSearchAttributes(ctx, attrStatus.ValueSet(status),
		attrImage.ValueSet(r.image()), attrHost.ValueSet(r.st.Place.HostID))
	if err != nil {
		workflow.GetLogger(ctx).Error("search attributes not set", "error", err)
	}
	workflow.SetCurrentDetails(ctx, r.details())
}

// details is the Markdown that Temporal's UI shows of a session.
func (r *run) details() string {
	d := "**" + r.st.Status + "**"
	if r.st.Reason != "" {
		d += " (" + r.st.Reason + ")"
	}
	d += "\n\n| | |\n|---|---|\n| owner | " + r.in.Owner + " |\n| image | " + r.image() + " |\n"
	if r.st.Place.HostID != "" {
		d += "| host | " + r.st.Place.HostID + " |\n"
	}
	return d + "| expires | " + session.Time(r.st.ExpiresAt) + " |\n"
}
