package workflows

import (
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Options are the same in every worker of an installation. A run of a session
// keeps those it began with: changing them changes what its next run does.
type Options struct {
	// CallBound is how long a call may try to reach its sandbox before it is
	// given up; 0 is 10 min. A command's own run time does not count.
	CallBound time.Duration
	// SnapshotRetention is how long a snapshot is kept; 0 is 30 days.
	SnapshotRetention time.Duration
	// EventsPerRun is after how many history events a session continues as
	// new; 0 leaves it to Temporal's suggestion (4,096).
	EventsPerRun int
	// NearWait is how long a call is tried on the worker at hand before it goes
	// to the host's queue; 0 is 100 ms, less than 0 tries none. Histories of
	// before there was such a way have 0 recorded, which replay takes as none.
	NearWait time.Duration
}

// recorded gives the options that the run began with: with others, a replay
// would take other turns.
func (o Options) recorded(ctx workflow.Context) Options {
	var began Options
	if err := workflow.SideEffect(ctx, func(workflow.Context) any { return o }).Get(&began); err != nil {
		panic(err) // an unreadable history: fail the task, not the session
	}
	return began
}

func (o Options) withDefaults() Options {
	if o.CallBound == 0 {
		o.CallBound = 10 * time.Minute
	}
	if o.SnapshotRetention == 0 {
		o.SnapshotRetention = 30 * 24 * time.Hour
	}
	if o.NearWait == 0 {
		o.NearWait = 100 * time.Millisecond
	}
	return o
}

// Register registers the workflows under their names.
func Register(r worker.WorkflowRegistry, o Options) {
	o = o.withDefaults()
	r.RegisterWorkflowWithOptions(func(ctx workflow.Context, in session.WorkflowInput) error {
		return runSession(ctx, in, o)
	}, workflow.RegisterOptions{Name: session.WorkflowType})
	r.RegisterWorkflowWithOptions(func(ctx workflow.Context, in SnapshotInput) error {
		return runSnapshot(ctx, in)
	}, workflow.RegisterOptions{Name: session.SnapshotWorkflowType})
	r.RegisterWorkflowWithOptions(runReaper, workflow.RegisterOptions{Name: session.ReaperWorkflowType})
}
