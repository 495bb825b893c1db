package session

import (
	"context"
	"fmt"
	"strings"

	workflowpb "go.temporal.io/api/workflow/v1"
)

// FindSnapshot asks a snapshot's workflow for its record. Unknown, deleted and
// someone else's are the same NotFound.
func (c *Client) FindSnapshot(ctx context.Context, owner, snapshotID string) (SnapshotRecord, error) {
	var rec SnapshotRecord
	if err := CheckSnapshotID(snapshotID); err != nil {
		return rec, err
	}
	err := c.query(ctx, SnapshotWorkflowIDPrefix+snapshotID, Asker{Owner: owner}, &rec, queryAttempts)
	if closed(err) {
		return rec, NoSnapshot(snapshotID)
	}
	if err != nil {
		return rec, err
	}
	if !rec.Found {
		return rec, NoSnapshot(snapshotID)
	}
	return rec, nil
}

// listSnapshots asks visibility for the owner's snapshots and each for its
// record.
func (c *Client) listSnapshots(ctx context.Context, owner string, in ListSnapshotsIn, out *ListSnapshotsOut) error {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND %s = '%s'", SnapshotWorkflowType, AttrOwner, quote(owner))
	if in.SessionID != "" {
		if err := CheckSessionID(in.SessionID); err != nil {
			return err
		}
		query += fmt.Sprintf(" AND %s = '%s'", AttrSession, quote(in.SessionID))
	}
	var ids []string
	err := c.list(ctx, query, 0, func(e *workflowpb.WorkflowExecutionInfo) {
		ids = append(ids, strings.TrimPrefix(e.GetExecution().GetWorkflowId(), SnapshotWorkflowIDPrefix))
	})
	if err != nil {
		return err
	}
	out.Snapshots = []SnapshotInfo{}
	for _, id := range ids {
		rec, err := c.FindSnapshot(ctx, owner, id)
		if CodeOf(err) == NotFound {
			continue // deleted since
		}
		if err != nil {
			return err
		}
		out.Snapshots = append(out.Snapshots, rec.Info)
	}
	return nil
}

func (c *Client) deleteSnapshot(ctx context.Context, call Call, in DeleteSnapshotIn, out any) (Meta, error) {
	if err := CheckSnapshotID(in.SnapshotID); err != nil {
		return Meta{}, err
	}
	call.SessionID = ""
	to := target{SnapshotWorkflowIDPrefix + in.SnapshotID, NoSnapshot(in.SnapshotID)}
	return c.update(ctx, to, DeleteSnapshot.Name, call, in, out)
}
