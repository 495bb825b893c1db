package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
)

// nearBesideOthers is how long a near call waits while other calls are at work:
// a local activity holds the workflow task, and so the calls that come after it.
const nearBesideOthers = 10 * time.Millisecond

// nearGrace is what a near call may take beyond the guest's wait.
const nearGrace = time.Second

// tryNear tries a call as a local activity, on the worker that has the workflow
// at hand. If that is on the session's host and the answer comes at once, the
// call costs no task on the host's queue (docs/adr/009). done is false when the
// call has to go there; it does so under the same call ID.
func tryNear[In, Out any](ctx workflow.Context, r *run, req request, task activities.Task[In], out *Out) (done bool, err error) {
	if r.o.NearWait <= 0 || req.far || r.nearSick || !r.pace.fits(ctx, activities.MaxNearBytes) {
		return false, nil
	}
	r.pace.add(ctx, activities.MaxNearBytes) // its marker goes with this task
	wait := r.o.NearWait
	if r.calls > 1 {
		wait = min(wait, nearBesideOthers)
	}
	task.NearMS = wait.Milliseconds()
	var answer activities.NearAnswer[Out]
	lctx := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: wait + nearGrace,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                req.summary,
	})
	err = workflow.ExecuteLocalActivity(lctx, activities.NearPrefix+req.activity,
		activities.NearTask[In]{HostID: r.st.Place.HostID, Task: task}).Get(ctx, &answer)
	switch {
	case err == nil && answer.Done:
		*out = answer.Out
		return true, nil
	case err != nil && (temporal.IsCanceledError(err) || proves(err)):
		return false, err
	default:
		r.nearSick = err != nil // it took its whole time: spare the next calls that
		return false, nil
	}
}
