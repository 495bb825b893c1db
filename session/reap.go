package session

import (
	"context"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// ReapInput starts a Reaper workflow, which looks once through what a host's
// engine holds of the installation.
type ReapInput struct {
	HostID string `json:"host_id"`
	DryRun bool   `json:"dry_run,omitempty"`
	// ListLeft asks for what is left, too; without it that is only counted.
	ListLeft bool `json:"list_left,omitempty"`
	// WorkerWithinSeconds is how soon the host's worker must take it up; 0 is an
	// hour.
	WorkerWithinSeconds int `json:"worker_within_seconds,omitempty"`
}

// What becomes of a thing that the reaper looks at.
const (
	ReapRemoved = "removed"
	ReapFound   = "found" // a dry run would have removed it
	ReapLeft    = "left"
	ReapFailed  = "failed"
)

// ReapedNothing is the status (AttrStatus) of a scheduled look that found nothing to
// do. The next one deletes it from Temporal, so that there are never more than a
// few: by the retention there would be thousands.
const ReapedNothing = "nothing to do"

// MaxReaped is how many things a report lists; the rest are counted.
const MaxReaped = 400

// ReapReport is what one look of a reaper found.
type ReapReport struct {
	HostID  string `json:"host_id"`
	DryRun  bool   `json:"dry_run"`
	Removed int    `json:"removed"` // with DryRun: that would be
	Left    int    `json:"left"`
	Failed  int    `json:"failed"`
	// Things lists at most MaxReaped: what failed, what was removed, and then
	// what was left, if that was asked for.
	Things []ReapedThing `json:"things"`
	// Unlisted counts those that would be in Things but for its limit.
	Unlisted int `json:"unlisted,omitempty"`
	// Error says why the host gave no report; the rest is empty then.
	Error string `json:"error,omitempty"`
}

// ReapedThing is an object at the engine.
type ReapedThing struct {
	Kind       string `json:"kind"` // container, volume, network, image
	ID         string `json:"id"`
	SessionID  string `json:"session_id,omitempty"`
	SnapshotID string `json:"snapshot_id,omitempty"`
	CreatedAt  string `json:"created_at"`
	Outcome    string `json:"outcome"` // removed, found, left, failed
	Reason     string `json:"reason"`
}

// Life is what Temporal knows of a workflow.
type Life string

// The lives of a workflow.
const (
	LifeRunning Life = "running"
	LifeClosed  Life = "closed"
	// LifeUnknown: there is none of that ID, or it closed longer ago than the
	// namespace keeps.
	LifeUnknown Life = "unknown"
)

// Life asks Temporal for a workflow's newest run, or the one of a run ID. It goes
// by the record of the workflow and not by visibility, which lags. Only a definite
// answer is one; anything else is an error.
func (c *Client) Life(ctx context.Context, workflowID, runID string) (Life, error) {
	resp, err := c.temporal.DescribeWorkflowExecution(ctx, workflowID, runID)
	switch {
	case closed(err):
		return LifeUnknown, nil
	case err != nil:
		return "", err
	}
	switch status := resp.GetWorkflowExecutionInfo().GetStatus(); status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED:
		return LifeRunning, nil
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return LifeClosed, nil
	default: // continued as new: another run lives
		return "", Errorf(Internal, "Temporal calls workflow %s %s", workflowID, status)
	}
}

const (
	// forgetAtOnce is how many looks are deleted at most.
	forgetAtOnce = 100
	// forgetAfter is how long a look has been over when it is deleted: before
	// Temporal has taken note of its end in all places (30 s), a deletion waits,
	// and those after it with it.
	forgetAfter = 2 * time.Minute
)

// ForgetReaps deletes from Temporal what a host's schedule started and found
// nothing to do. Those that removed something stay for the namespace's retention.
func (c *Client) ForgetReaps(ctx context.Context, namespace, hostID string) error {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Completed' AND %s AND %s AND %s",
		ReaperWorkflowType, is(AttrStatus, ReapedNothing), is(AttrHost, hostID), closedBefore(time.Now().Add(-forgetAfter)))
	var runs []*commonpb.WorkflowExecution
	err := c.list(ctx, query, forgetAtOnce, func(e *workflowpb.WorkflowExecutionInfo) { runs = append(runs, e.GetExecution()) })
	if err != nil {
		return err
	}
	for _, run := range runs {
		_, err := c.temporal.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: namespace, WorkflowExecution: run,
		})
		if err != nil && !closed(err) {
			return err
		}
	}
	return nil
}

func closedBefore(t time.Time) string { return fmt.Sprintf("CloseTime < '%s'", Time(t)) }
