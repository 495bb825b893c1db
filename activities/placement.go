package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Snapshots finds snapshots; session.Client does.
type Snapshots interface {
	// FindSnapshot answers session.NotFound for an unknown, deleted or foreign one.
	FindSnapshot(ctx context.Context, owner, snapshotID string) (session.SnapshotRecord, error)
}

// Placement holds the activities of the shared queue. The worker that takes one
// speaks for its host.
type Placement struct {
	hostID    string
	snapshots Snapshots
}

// NewPlacement makes the activities of the host with this ID.
func NewPlacement(hostID string, s Snapshots) *Placement {
	return &Placement{hostID: hostID, snapshots: s}
}

// Register registers the activities under their names.
func (p *Placement) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(p.placeSession, activity.RegisterOptions{Name: PlaceSession})
	r.RegisterActivityWithOptions(p.describeSnapshot, activity.RegisterOptions{Name: DescribeSnapshot})
}

// HostQueue is the task queue of the host with this ID.
func HostQueue(hostID string) string { return session.HostQueuePrefix + hostID }

// placeSession places a session here: whoever polls the shared queue has room.
func (p *Placement) placeSession(context.Context, None) (Place, error) {
	return Place{HostID: p.hostID, Queue: HostQueue(p.hostID)}, nil
}

func (p *Placement) describeSnapshot(ctx context.Context, q SnapshotQuery) (session.SnapshotRecord, error) {
	ctx, stop := heartbeat(ctx) // a query waits for a worker that may just be starting
	defer stop()
	rec, err := p.snapshots.FindSnapshot(ctx, q.Owner, q.SnapshotID)
	return rec, report(err)
}
