package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// retry repeats passing faults. What is final says so itself. The bound is the
// ScheduleToClose timeout of each activity.
var retry = &temporal.RetryPolicy{
	InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 2 * time.Second,
}

// quick is for activities that only ask.
func quick(summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: summary, RetryPolicy: retry, HeartbeatTimeout: activities.HeartbeatTimeout,
		StartToCloseTimeout: 10 * time.Second, ScheduleToCloseTimeout: 30 * time.Second,
	}
}

// deliver is for calls to the guest that wait for up to that time.
func deliver(summary string, wait, bound time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: summary, RetryPolicy: retry, HeartbeatTimeout: activities.HeartbeatTimeout,
		StartToCloseTimeout: wait + 40*time.Second, ScheduleToCloseTimeout: wait + bound,
	}
}

// prepare is for making sandboxes and images: a pull may take minutes.
func prepare(summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: summary, RetryPolicy: retry, HeartbeatTimeout: activities.HeartbeatTimeout,
		StartToCloseTimeout: 15 * time.Minute, ScheduleToCloseTimeout: 30 * time.Minute,
		// A cancelled one must have stopped before its results are removed.
		WaitForCancellation: true,
	}
}

// cleanup is for removing things: it waits a day for a host that is down; then
// the reaper is left to do it.
func cleanup(summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: summary, HeartbeatTimeout: activities.HeartbeatTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
		},
		StartToCloseTimeout: time.Minute, ScheduleToCloseTimeout: 24 * time.Hour,
	}
}

// host directs activities to the session's host.
func (r *run) host(ctx workflow.Context, o workflow.ActivityOptions) workflow.Context {
	o.TaskQueue = r.st.Place.Queue
	return workflow.WithActivityOptions(ctx, o)
}

// anywhere directs activities to any worker.
func anywhere(ctx workflow.Context, o workflow.ActivityOptions) workflow.Context {
	o.TaskQueue = session.TaskQueue
	return workflow.WithActivityOptions(ctx, o)
}
