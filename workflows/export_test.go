package workflows

import "go.temporal.io/sdk/workflow"

// NewPace gives the wait of a pace of its own.
func NewPace(ctx workflow.Context) func(workflow.Context, int) error { return newPace(ctx).wait }
