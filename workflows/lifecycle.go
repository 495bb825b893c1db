package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// startAnswerWithin is when start_session answers, with status starting if it
// must.
const startAnswerWithin = 45 * time.Second

// start places the session and makes its sandbox. If that cannot be, the
// session ends with the reason as its failure.
func (r *run) start(ctx workflow.Context) {
	bctx, done := r.breakable(ctx, onEnd)
	defer done()
	tctx, stop := workflow.WithCancel(ctx)
	defer stop()
	workflow.Go(tctx, func(ctx workflow.Context) {
		if workflow.Sleep(ctx, r.st.ExpiresAt.Sub(workflow.Now(ctx))) == nil {
			r.askEnd(reasonExpired)
		}
	})
	err := r.place(bctx)
	if err == nil {
		err = r.create(bctx, r.st.Parent)
	}
	switch {
	case err == nil:
		r.st.LastActivity = workflow.Now(ctx)
		r.setStatus(ctx, session.StatusRunning)
	case r.ending:
	case ctx.Err() != nil:
		r.askEnd(reasonCancelled)
	default:
		r.fail(err)
	}
}

// fail ends a session that could not start.
func (r *run) fail(err error) {
	e := session.DecodeError(err)
	if !proves(err) || session.FailureType(err) == session.FailureSandboxGone {
		e = session.Errorf(session.Unavailable, "no sandbox could be made in time; is a worker running and does its engine answer?")
	}
	r.st.Failure = &session.Failure{Code: e.Code, Message: e.Message}
	r.askEnd("it could not start: " + e.Message)
}

// place chooses the host: the snapshot's for a fork, else whoever has room.
func (r *run) place(ctx workflow.Context) error {
	if r.st.Parent == "" {
		return workflow.ExecuteActivity(anywhere(ctx, prepare("place")), activities.PlaceSession, activities.None{}).Get(ctx, &r.st.Place)
	}
	rec, err := r.findSnapshot(ctx, r.st.Parent)
	if err != nil {
		return err
	}
	r.st.Place = activities.Place{HostID: rec.HostID, Queue: rec.HostQueue}
	r.in.Start.Image = rec.Image
	return nil
}

// create makes the next incarnation of the sandbox, from a snapshot or from the
// session's image, and removes the one before.
func (r *run) create(ctx workflow.Context, snapshotID string) error {
	r.st.Incarnation++
	spec := activities.SandboxSpec{
		SessionID: r.in.SessionID, Incarnation: r.st.Incarnation, Owner: r.in.Owner, CallID: r.in.CallID,
		Image: r.in.Start.Image, SnapshotID: snapshotID, Network: r.in.Start.Network,
		MemoryMB: r.in.Start.MemoryMB, CPUs: r.in.Start.CPUs, ExpiresAt: r.st.ExpiresAt,
	}
	return workflow.ExecuteActivity(r.host(ctx, prepare("create sandbox")), activities.CreateSandbox, spec).Get(ctx, &r.st.Sandbox)
}

// change keeps calls from the sandbox, and other changes, until release is
// called.
func (r *run) change(ctx workflow.Context) (release func(), err error) {
	if err := workflow.Await(ctx, func() bool { return !r.busy }); err != nil {
		return nil, err
	}
	r.busy = true
	return func() {
		r.busy = false
		r.changes++
	}, nil
}

// recover brings back a sandbox that is gone: its container is started again if
// it is still there, else the latest snapshot is restored if the session wants
// that, else the session is lost. Whoever notices first does it; calls wait
// meanwhile. seen is r.changes when the sandbox was last used: what was noticed
// before a change says nothing of the sandbox after it.
func (r *run) recover(ctx workflow.Context, seen int) {
	release, err := r.change(ctx)
	if err != nil {
		return
	}
	if r.ending || r.st.Status != session.StatusRunning || r.changes != seen {
		r.busy = false
		return
	}
	defer release()
	bctx, done := r.breakable(ctx, onEnd)
	defer done()

	if err = r.revive(bctx); err == nil {
		r.st.Notice = "The sandbox had stopped at " + session.Time(workflow.Now(ctx)) + " and was started again: files are kept, its processes have ended."
		return
	}
	if r.ending {
		return
	}
	if r.in.Start.OnLoss == session.OnLossRestore && r.st.Latest != "" {
		if err = r.create(bctx, r.st.Latest); err == nil {
			r.st.Notice = fmt.Sprintf("The sandbox was lost and snapshot %s was restored at %s: changes since that snapshot are lost, its processes have ended.",
				r.st.Latest, session.Time(workflow.Now(ctx)))
			return
		}
	}
	if r.ending {
		return
	}
	if ctx.Err() != nil {
		return // the workflow was cancelled: what is there, its end removes
	}
	workflow.GetLogger(ctx).Warn("sandbox is lost", session.KeySession, r.in.SessionID, "error", err)
	r.st.Reason = "its container was removed"
	if e := session.DecodeError(err); e.Code == session.Unavailable {
		r.st.Reason = e.Message
	}
	r.setStatus(ctx, session.StatusLost)
}

// revive starts the sandbox's container again if it does not run.
func (r *run) revive(ctx workflow.Context) error {
	var sb activities.Sandbox
	err := workflow.ExecuteActivity(r.host(ctx, prepare("revive sandbox")), activities.ReviveSandbox, r.st.Sandbox.Ref).Get(ctx, &sb)
	if err == nil {
		r.st.Sandbox = sb
	}
	return err
}

func (r *run) lostMessage() string {
	m := "the sandbox of this session is lost (" + r.st.Reason + "), its files and running commands with it; "
	if r.st.Latest != "" {
		return m + "restore_snapshot " + r.st.Latest + " brings back the files of then, or end_session"
	}
	return m + "there is no snapshot to restore: end_session, then start_session"
}

// awaitStarted answers start_session when the sandbox is ready, or shows that
// it is still starting.
func (r *run) awaitStarted(ctx workflow.Context, _ call, _ session.StartSessionIn) (session.StartSessionOut, error) {
	bctx, done := r.breakable(ctx, onDrain)
	defer done()
	_, err := workflow.AwaitWithTimeout(bctx, startAnswerWithin, func() bool {
		return r.st.Status != session.StatusStarting || r.ending
	})
	if r.st.Failure != nil {
		return session.StartSessionOut{}, session.Errorf(r.st.Failure.Code, "%s", r.st.Failure.Message)
	}
	return r.startOut(), err
}

// getSession adds to the state what the sandbox says of itself.
func (r *run) getSession(ctx workflow.Context, _ call, _ session.GetSessionIn) (session.GetSessionOut, error) {
	out := r.sessionOut()
	if r.st.Status != session.StatusRunning || r.busy {
		return out, nil
	}
	bctx, done := r.breakable(ctx, onDrain)
	defer done()
	var rep activities.UsageReport
	changes := r.changes
	err := workflow.ExecuteActivity(r.host(bctx, quick("usage")), activities.DescribeUsage, r.st.Sandbox.Ref).Get(bctx, &rep)
	switch {
	case err == nil:
		out.Usage, out.Commands = &rep.Usage, rep.Commands
	case temporal.IsCanceledError(err):
		return out, err
	case session.FailureType(err) == session.FailureSandboxGone:
		r.recover(ctx, changes)
		return r.sessionOut(), nil
	}
	return out, nil // without usage: the state is still worth an answer
}
