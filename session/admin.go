package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"golang.org/x/sync/errgroup"
)

// Admin acts on the sessions and snapshots of all owners, each as its owner:
// whoever reaches Temporal's namespace, as by the data dir, administers it. It is
// for an operator's commands; nothing that agents call may hold one. Safe for
// concurrent use. Its errors are *Error, their messages for an operator.
type Admin struct{ client *Client }

// NewAdmin makes an Admin over a client, which needs no secret.
func NewAdmin(c *Client) *Admin { return &Admin{client: c} }

// OwnedSession is a session in a listing over all owners.
type OwnedSession struct {
	Info
	Owner string `json:"owner"`
	// Host is empty until the session is placed.
	Host string `json:"host,omitempty"`
}

// Details describe a session now.
type Details struct {
	GetSessionOut
	Owner     string `json:"owner"`
	Host      string `json:"host,omitempty"`
	StartedAt string `json:"started_at"`
	EndedAt   string `json:"ended_at,omitempty"`
}

// OwnedSnapshot is a snapshot in a listing over all owners.
type OwnedSnapshot struct {
	SnapshotInfo
	Owner string `json:"owner"`
	Host  string `json:"host"`
	Image string `json:"image"`
}

// Filter chooses sessions; the zero value all that have not ended.
type Filter struct {
	Owner  string // "" is every owner
	Status string // one of the statuses; "" is all but ended
	Limit  int    // 0 is no limit
}

// SnapshotFilter chooses snapshots; the zero value all.
type SnapshotFilter struct {
	Owner     string
	SessionID string
}

// Sessions lists sessions, newest first. Visibility lags a moment behind.
func (a *Admin) Sessions(ctx context.Context, f Filter) ([]OwnedSession, error) {
	query := fmt.Sprintf("WorkflowType = '%s' AND ", WorkflowType)
	switch f.Status {
	case "":
		query += "ExecutionStatus = 'Running'"
	case StatusEnded:
		query += "ExecutionStatus IN ('Completed','Failed','Terminated','TimedOut','Canceled')"
	default:
		query += "ExecutionStatus = 'Running' AND " + is(AttrStatus, f.Status)
	}
	if f.Owner != "" {
		query += " AND " + is(AttrOwner, f.Owner)
	}
	limit := f.Limit
	if limit == 0 {
		limit = math.MaxInt
	}
	found := []OwnedSession{}
	err := a.client.list(ctx, query, limit, func(e *workflowpb.WorkflowExecutionInfo) {
		found = append(found, ownedSession(e))
	})
	if err != nil {
		return nil, a.explain(ctx, err)
	}
	return found, nil
}

// Session describes a session, whether it has ended or not. A worker must run:
// the session's workflow and its sandbox are asked. That counts as a call, so
// that a session's idle time begins anew.
func (a *Admin) Session(ctx context.Context, sessionID string) (Details, error) {
	s, err := a.findSession(ctx, sessionID)
	if err != nil {
		return Details{}, err
	}
	out, _, err := Do(ctx, a.client, GetSession, Call{Owner: s.Owner, SessionID: sessionID}, GetSessionIn{})
	if err != nil {
		return Details{}, a.explain(ctx, err)
	}
	return Details{GetSessionOut: out, Owner: s.Owner, Host: s.Host, StartedAt: s.StartedAt, EndedAt: s.EndedAt}, nil
}

// reasonOperator is what the owner is told of a session that EndSession ended.
const reasonOperator = "an operator ended it"

// EndSession ends a session and returns when nothing of its sandbox is left; one
// that has ended is no error. When ctx ends before, the end goes on.
func (a *Admin) EndSession(ctx context.Context, sessionID string) error {
	s, err := a.findSession(ctx, sessionID)
	if err != nil || s.Status == StatusEnded {
		return err
	}
	temporalClient, workflowID := a.client.temporal, WorkflowIDPrefix+sessionID
	err = temporalClient.SignalWorkflow(ctx, workflowID, "", SignalEnd, End{Owner: s.Owner, Reason: reasonOperator})
	if closed(err) {
		return nil
	}
	if err == nil {
		err = a.client.awaitEnd(ctx, workflowID)
	}
	if err != nil {
		return a.explain(ctx, err)
	}
	return nil
}

// snapshotQueries is how many snapshots are asked for their records at once.
const snapshotQueries = 8

// Snapshots lists snapshots, newest first. A worker must run: each is asked.
func (a *Admin) Snapshots(ctx context.Context, f SnapshotFilter) ([]OwnedSnapshot, error) {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", SnapshotWorkflowType)
	if f.Owner != "" {
		query += " AND " + is(AttrOwner, f.Owner)
	}
	if f.SessionID != "" {
		query += " AND " + is(AttrSession, f.SessionID)
	}
	type named struct{ id, owner string }
	var listed []named
	err := a.client.list(ctx, query, math.MaxInt, func(e *workflowpb.WorkflowExecutionInfo) {
		listed = append(listed, named{strings.TrimPrefix(e.GetExecution().GetWorkflowId(), SnapshotWorkflowIDPrefix), keyword(e, AttrOwner)})
	})
	if err != nil {
		return nil, a.explain(ctx, err)
	}
	records := make([]SnapshotRecord, len(listed))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(snapshotQueries)
	for i, l := range listed {
		g.Go(func() (err error) {
			records[i], err = a.client.FindSnapshot(gctx, l.owner, l.id)
			if CodeOf(err) == NotFound { // deleted since
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, a.explain(ctx, err)
	}
	found := []OwnedSnapshot{}
	for i, r := range records {
		if r.Found {
			found = append(found, OwnedSnapshot{SnapshotInfo: r.Info, Owner: listed[i].owner, Host: r.HostID, Image: r.Image})
		}
	}
	return found, nil
}

// DeleteSnapshot deletes a snapshot and returns when its image is removed.
func (a *Admin) DeleteSnapshot(ctx context.Context, snapshotID string) error {
	unknown := Errorf(NotFound, "no snapshot %q; mcp-sandbox snapshots list shows those that there are", clip(snapshotID, 64))
	if CheckSnapshotID(snapshotID) != nil {
		return unknown
	}
	e, err := a.find(ctx, SnapshotWorkflowIDPrefix+snapshotID, unknown)
	if err != nil {
		return err
	}
	_, _, err = Do(ctx, a.client, DeleteSnapshot, Call{Owner: keyword(e, AttrOwner)}, DeleteSnapshotIn{SnapshotID: snapshotID})
	if CodeOf(err) == NotFound {
		return unknown
	}
	if err != nil {
		return a.explain(ctx, err)
	}
	return nil
}

func (a *Admin) findSession(ctx context.Context, sessionID string) (OwnedSession, error) {
	unknown := Errorf(NotFound, "no session %q; mcp-sandbox sessions list shows those that run, with --status ended the others", clip(sessionID, 64))
	if CheckSessionID(sessionID) != nil {
		return OwnedSession{}, unknown
	}
	e, err := a.find(ctx, WorkflowIDPrefix+sessionID, unknown)
	if err != nil {
		return OwnedSession{}, err
	}
	s := ownedSession(e)
	if first := e.GetFirstRunId(); first != "" && first != e.GetExecution().GetRunId() { // it was continued as new
		if resp, err := a.client.temporal.DescribeWorkflowExecution(ctx, WorkflowIDPrefix+sessionID, first); err == nil {
			s.StartedAt = Time(resp.GetWorkflowExecutionInfo().GetStartTime().AsTime())
		} // else that run is older than the namespace's retention
	}
	return s, nil
}

// find looks at the newest run of a workflow. Unlike a listing it does not lag.
func (a *Admin) find(ctx context.Context, workflowID string, unknown *Error) (*workflowpb.WorkflowExecutionInfo, error) {
	resp, err := a.client.temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	switch {
	case closed(err):
		return nil, unknown
	case err != nil:
		return nil, a.explain(ctx, err)
	}
	return resp.GetWorkflowExecutionInfo(), nil
}

func ownedSession(e *workflowpb.WorkflowExecutionInfo) OwnedSession {
	s := OwnedSession{
		Info: Info{
			SessionID: strings.TrimPrefix(e.GetExecution().GetWorkflowId(), WorkflowIDPrefix),
			Name:      keyword(e, AttrName),
			Status:    keyword(e, AttrStatus),
			Image:     keyword(e, AttrImage),
			StartedAt: startedAt(e),
		},
		Owner: keyword(e, AttrOwner),
		Host:  keyword(e, AttrHost),
	}
	if e.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		s.Status = StatusEnded
		s.EndedAt = Time(e.GetCloseTime().AsTime())
	}
	return s
}

// is compares a search attribute with a value.
func is(attr, value string) string { return fmt.Sprintf("%s = '%s'", attr, quote(value)) }

// explain says to an operator what an agent is told in other words, and the
// cause of what an agent is told nothing of.
func (a *Admin) explain(ctx context.Context, err error) *Error {
	e := a.client.explain(ctx, err)
	var noPoller *serviceerror.FailedPrecondition
	switch {
	case errors.As(err, &noPoller):
		return Wrap(err, Unavailable, "%s: start one with mcp-sandbox serve or worker", noPoller.Message)
	case e.Code == Cancelled:
		return Wrap(err, Cancelled, "interrupted; what was asked for may still be done")
	case e.Code == DeadlineExceeded:
		return Wrap(err, DeadlineExceeded, "no answer in time: look whether Temporal and a worker run (mcp-sandbox doctor); what was asked for may still be done")
	case e.Code == Internal && e.err != nil:
		return Wrap(err, Internal, "%s", e.err)
	}
	return e
}
