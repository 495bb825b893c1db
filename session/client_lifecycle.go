package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// WorkflowTaskTimeout is how soon a workflow task of a killed worker goes to
// another, and how long a query of the workflow may have to wait then.
const WorkflowTaskTimeout = 3 * time.Second

// startSession starts the session's workflow, or finds the one that the same
// call started before, and waits until it is ready or shows why not.
func (c *Client) startSession(ctx context.Context, call Call, in StartSessionIn, out *StartSessionOut) (Meta, error) {
	call.SessionID = MakeSessionID(c.secret, call.Owner, call.CallID)
	workflowID := WorkflowIDPrefix + call.SessionID
	meta := Meta{CallID: call.CallID, SessionID: call.SessionID, WorkflowID: workflowID}
	run, err := c.execute(ctx, call, in)
	if err != nil {
		return meta, err
	}
	if run != nil {
		meta.RunID = run.GetRunID()
	}
	m, err := c.update(ctx, target{workflowID, NoSession(call.SessionID)}, StartSession.Name, call, in, out)
	if err == nil || DecodeError(err).Code != FailedPrecondition {
		return m, err
	}
	// It has closed already: it could not start, or it has run and ended.
	d, _, derr := c.describe(ctx, call)
	if derr != nil || d.Failure == nil {
		return m, err
	}
	return m, Errorf(d.Failure.Code, "%s", d.Failure.Message)
}

// execute starts the session's workflow, if its owner has a place for it. run is
// nil when the same call started one before that has ended.
func (c *Client) execute(ctx context.Context, call Call, in StartSessionIn) (run client.WorkflowRun, err error) {
	err = c.quota.admit(ctx, call.Owner, call.SessionID, func() (err error) {
		run, err = c.startWorkflow(ctx, call, in)
		return err
	})
	return run, err
}

func (c *Client) startWorkflow(ctx context.Context, call Call, in StartSessionIn) (client.WorkflowRun, error) {
	workflowID := WorkflowIDPrefix + call.SessionID
	ctx, span := c.span(ctx, "StartWorkflow:"+WorkflowType, workflowID, call)
	run, err := c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       workflowID,
		TaskQueue:                TaskQueue,
		WorkflowTaskTimeout:      WorkflowTaskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		StaticSummary:            in.Name,
		Memo:                     map[string]any{MemoStartedAt: Time(time.Now())},
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(AttrOwner).ValueSet(call.Owner),
			temporal.NewSearchAttributeKeyKeyword(AttrStatus).ValueSet(StatusStarting),
			temporal.NewSearchAttributeKeyKeyword(AttrName).ValueSet(in.Name),
			temporal.NewSearchAttributeKeyKeyword(AttrImage).ValueSet(in.Image),
		),
	}, WorkflowType, WorkflowInput{SessionID: call.SessionID, Owner: call.Owner, CallID: call.CallID, Start: in})
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		run, err = nil, nil // see execute
	}
	runID := ""
	if run != nil {
		runID = run.GetRunID()
	}
	endSpan(span, runID, err)
	return run, err
}

// getSession asks the workflow for the session's state, and the sandbox for its
// use, which an ended session has not.
func (c *Client) getSession(ctx context.Context, call Call, out *GetSessionOut) (Meta, error) {
	meta := Meta{SessionID: call.SessionID, WorkflowID: WorkflowIDPrefix + call.SessionID}
	if err := CheckSessionID(call.SessionID); err != nil {
		return meta, err
	}
	m, err := c.update(ctx, target{meta.WorkflowID, NoSession(call.SessionID)}, GetSession.Name, call, &GetSessionIn{}, out)
	if err == nil || DecodeError(err).Code != FailedPrecondition {
		return m, err
	}
	// It ends or has ended, or was terminated and could not say so itself.
	d, runID, err := c.describe(ctx, call)
	if err != nil {
		return m, err
	}
	m.RunID = runID
	*out = d.Session
	if out.Status != StatusEnded {
		if ended, err := c.ended(ctx, meta.WorkflowID); err != nil || !ended {
			return m, err
		}
		out.Status, out.Reason = StatusEnded, reasonTerminated
	}
	return m, nil
}

// Ended tells whether a session has ended, or never was, by Temporal alone: it
// needs no worker, takes about 1 ms and is no use of the session.
func (c *Client) Ended(ctx context.Context, sessionID string) (bool, error) {
	ended, err := c.ended(ctx, WorkflowIDPrefix+sessionID)
	if err != nil {
		return false, c.explain(ctx, err)
	}
	return ended, nil
}

// SessionID is the ID of the session that a start_session of this owner under
// this call ID starts.
func (c *Client) SessionID(owner, callID string) string {
	return MakeSessionID(c.secret, owner, callID)
}

// endSession signals the end and waits until the workflow has closed, which it
// does when nothing of the sandbox is left.
func (c *Client) endSession(ctx context.Context, call Call, out *EndSessionOut) (Meta, error) {
	meta := Meta{SessionID: call.SessionID, WorkflowID: WorkflowIDPrefix + call.SessionID}
	if err := CheckSessionID(call.SessionID); err != nil {
		return meta, err
	}
	d, runID, err := c.describe(ctx, call)
	if err != nil {
		return meta, err
	}
	meta.RunID = runID
	if d.Session.Status != StatusEnded {
		err := c.signal(ctx, call, SignalEnd, End{Owner: call.Owner, Reason: "end_session was called"})
		if err != nil && !closed(err) {
			return meta, err
		}
		if err := c.awaitEnd(ctx, meta.WorkflowID); err != nil {
			return meta, err
		}
	}
	c.quota.ended(call.Owner, call.SessionID)
	*out = EndSessionOut{SessionID: call.SessionID, Status: StatusEnded}
	return meta, nil
}

// lookAgain is after how long a wait for a workflow's end looks for itself: the
// server's long poll may miss the end of a run that began just now, and then
// takes 20 s.
const lookAgain = 250 * time.Millisecond

// awaitEnd waits until a workflow has closed. Terminated is closed too: the
// reaper removes the rest.
func (c *Client) awaitEnd(ctx context.Context, workflowID string) error {
	for {
		limited, cancel := context.WithTimeout(ctx, lookAgain)
		err := c.temporal.GetWorkflow(limited, workflowID, "").Get(limited, nil)
		// The server may notice the deadline a moment before this process does.
		late := limited.Err() != nil || late(err)
		cancel()
		var closed *temporal.WorkflowExecutionError
		switch {
		case err == nil, errors.As(err, &closed):
			return nil
		case ctx.Err() != nil || !late:
			return err
		}
		if ended, err := c.ended(ctx, workflowID); ended || err != nil {
			return err
		}
	}
}

// listSessions asks visibility, which lags a moment behind.
func (c *Client) listSessions(ctx context.Context, owner string, in ListSessionsIn, out *ListSessionsOut) error {
	query := fmt.Sprintf("WorkflowType = '%s' AND %s = '%s'", WorkflowType, AttrOwner, quote(owner))
	switch in.Status {
	case "":
		query += " AND ExecutionStatus = 'Running'"
	case StatusEnded:
		query += " AND ExecutionStatus IN ('Completed','Failed','Terminated','TimedOut','Canceled')"
	default:
		query += fmt.Sprintf(" AND ExecutionStatus = 'Running' AND %s = '%s'", AttrStatus, quote(in.Status))
	}
	out.Sessions = []Info{}
	return c.list(ctx, query, in.Limit, func(e *workflowpb.WorkflowExecutionInfo) {
		info := Info{
			SessionID: strings.TrimPrefix(e.GetExecution().GetWorkflowId(), WorkflowIDPrefix),
			Name:      keyword(e, AttrName),
			Status:    keyword(e, AttrStatus),
			Image:     keyword(e, AttrImage),
			StartedAt: startedAt(e),
		}
		if e.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			info.Status = StatusEnded
			info.EndedAt = Time(e.GetCloseTime().AsTime())
		}
		// A continued session is listed by its last run alone.
		if e.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			out.Sessions = append(out.Sessions, info)
		}
	})
}

// list calls visit for up to limit executions (0 is 1000), newest first.
func (c *Client) list(ctx context.Context, query string, limit int, visit func(*workflowpb.WorkflowExecutionInfo)) error {
	if limit == 0 {
		limit = 1000
	}
	var found []*workflowpb.WorkflowExecutionInfo
	var page []byte
	for len(found) < limit {
		resp, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: query, PageSize: int32(min(limit-len(found), 1000)), NextPageToken: page, //nolint:gosec // at most 1000
		})
		if err != nil {
			return err
		}
		found = append(found, resp.GetExecutions()...)
		if page = resp.GetNextPageToken(); len(page) == 0 {
			break
		}
	}
	slices.SortStableFunc(found, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		return strings.Compare(startedAt(b), startedAt(a)) // of one form, so they sort as text
	})
	for _, e := range found {
		visit(e)
	}
	return nil
}

// startedAt is when the session started, which may have been some runs ago.
func startedAt(e *workflowpb.WorkflowExecutionInfo) string {
	if t := decodeText(e.GetMemo().GetFields()[MemoStartedAt]); t != "" {
		return t
	}
	return Time(e.GetStartTime().AsTime())
}

func keyword(e *workflowpb.WorkflowExecutionInfo, name string) string {
	return decodeText(e.GetSearchAttributes().GetIndexedFields()[name])
}

func decodeText(p *commonpb.Payload) string {
	var s string
	if p == nil || converter.GetDefaultDataConverter().FromPayload(p, &s) != nil {
		return ""
	}
	return s
}

// quote escapes a value for a visibility query.
func quote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s)
}

// Time writes a time as the tools show it: RFC 3339 in UTC, milliseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
