package workflows

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	// reapWithin bounds one attempt: thousands of things take minutes.
	reapWithin = 15 * time.Minute
	// reapAttempts bounds the attempts of one look; the schedule brings the next.
	reapAttempts = 3
	// workerWithin is how long a look waits for its host's worker.
	workerWithin = time.Hour
)

// runReaper is the Reaper workflow: one look at what a host's engine holds. A
// schedule per host starts it, and an operator's command. Listing, deciding and
// removing are one activity, so that histories stay small whatever there is.
func runReaper(ctx workflow.Context, in session.ReapInput) (session.ReapReport, error) {
	within := cmp.Or(time.Duration(in.WorkerWithinSeconds)*time.Second, workerWithin)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		Summary: "reap", TaskQueue: activities.HostQueue(in.HostID), HeartbeatTimeout: activities.HeartbeatTimeout,
		ScheduleToStartTimeout: within, StartToCloseTimeout: reapWithin, ScheduleToCloseTimeout: within + reapAttempts*reapWithin,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second, MaximumAttempts: reapAttempts,
		},
	})
	var rep session.ReapReport
	if err := workflow.ExecuteActivity(ctx, activities.Reap, in).Get(ctx, &rep); err != nil {
		return rep, err
	}
	if !in.ListLeft && rep.Removed+rep.Failed == 0 { // nobody asked, and there is nothing to tell
		return rep, workflow.UpsertTypedSearchAttributes(ctx, attrStatus.ValueSet(session.ReapedNothing))
	}
	return rep, nil
}
