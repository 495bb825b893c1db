package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// SnapshotInput starts a Snapshot workflow.
type SnapshotInput struct {
	Owner            string                 `json:"owner"`
	RetentionSeconds int                    `json:"retention_seconds"`
	Record           session.SnapshotRecord `json:"record"`
}

// runSnapshot is the Snapshot workflow: it owns a snapshot's image from the
// moment it exists until it is deleted or its retention is over, and closes when
// the image is removed.
func runSnapshot(ctx workflow.Context, in SnapshotInput) error {
	id := in.Record.Info.SnapshotID
	deleted, gone := false, false
	err := errors.Join(
		workflow.SetQueryHandler(ctx, session.QueryStatus, func(a session.Asker) (session.SnapshotRecord, error) {
			if a.Owner != in.Owner || deleted {
				return session.SnapshotRecord{}, nil
			}
			return in.Record, nil
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, session.DeleteSnapshot.Name,
			func(ctx workflow.Context, req session.Request[session.DeleteSnapshotIn]) (session.Response[session.DeleteSnapshotOut], error) {
				deleted = true
				ctx, cancel := workflow.NewDisconnectedContext(ctx)
				defer cancel()
				err := workflow.Await(ctx, func() bool { return gone })
				return session.Response[session.DeleteSnapshotOut]{
					Digest: req.Digest, Out: session.DeleteSnapshotOut{SnapshotID: id},
				}, err
			},
			workflow.UpdateHandlerOptions{
				Validator: func(_ workflow.Context, req session.Request[session.DeleteSnapshotIn]) error {
					if req.Owner != in.Owner || gone {
						return session.EncodeError(session.NoSnapshot(id))
					}
					return nil
				},
			}),
	)
	if err != nil {
		return err
	}
	// Deleted, too old, or the workflow cancelled, which is one more way to say so.
	_, _ = workflow.AwaitWithTimeout(ctx, time.Duration(in.RetentionSeconds)*time.Second, func() bool { return deleted })
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	deleted = true // from now on nobody finds it
	o := cleanup("remove snapshot")
	o.TaskQueue = in.Record.HostQueue
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), activities.RemoveSnapshot, id).Get(ctx, nil)
	gone = true
	_ = workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
	return err
}
