package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// lookPause is how soon after a look at its sandbox a session looks again for a
// death that it is told of: a container that dies each time it is started is left
// to the next call.
const lookPause = time.Minute

// look asks, in the background, whether the sandbox still runs, and has it
// recovered if it does not. A run that is about to continue as new leaves it to
// the next.
func (r *run) look(ctx workflow.Context) {
	if r.st.Look = r.draining; r.draining || r.ending || r.looking || workflow.Now(ctx).Sub(r.st.Looked) < lookPause {
		return
	}
	r.looking, r.st.Looked = true, workflow.Now(ctx)
	r.pending++
	workflow.Go(session.WithCause(ctx, session.SignalLook), func(ctx workflow.Context) {
		defer func() {
			r.looking = false
			r.pending--
		}()
		bctx, done := r.breakable(ctx, onDrain)
		defer done()
		err := workflow.Await(bctx, func() bool { return !r.busy })
		changes := r.changes
		if err == nil && r.st.Status == session.StatusRunning {
			err = workflow.ExecuteActivity(r.host(bctx, quick("look")), activities.DescribeUsage, r.st.Sandbox.Ref).Get(bctx, nil)
		}
		switch {
		case session.FailureType(err) == session.FailureSandboxGone:
			r.recover(ctx, changes)
		case err != nil: // nothing was seen
			r.st.Looked = time.Time{}
			r.st.Look = r.draining && temporal.IsCanceledError(err)
		}
	})
}
