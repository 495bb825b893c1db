package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// snapshot keeps the sandbox's files as an image and hands it to a workflow of
// its own, which outlives the session. A repeated call finds both.
func (r *run) snapshot(ctx workflow.Context, c call, in session.SnapshotIn) (session.SnapshotOut, error) {
	return once(ctx, r, c, r.exclusive, func(ctx workflow.Context) (session.SnapshotOut, error) {
		return r.takeSnapshot(ctx, c, in)
	})
}

func (r *run) takeSnapshot(ctx workflow.Context, c call, in session.SnapshotIn) (session.SnapshotOut, error) {
	id := session.MakeSnapshotID(r.in.SessionID, c.id)
	img, err := r.takeImage(ctx, activities.SnapshotSpec{SnapshotID: id, CallID: c.id, Owner: r.in.Owner}, in.Name)
	if err != nil {
		return session.SnapshotOut{}, err
	}
	info := session.SnapshotInfo{
		SnapshotID: id, Name: in.Name, SessionID: r.in.SessionID, Parent: r.st.Parent,
		SizeBytes: img.SizeBytes, Excluded: img.Excluded, CreatedAt: session.Time(img.CreatedAt),
		ExpiresAt: session.Time(img.CreatedAt.Add(r.o.SnapshotRetention)),
	}
	// From here on the session's end must not come between: an image that has no
	// workflow is an orphan. Nor is this context ever cancelled: that would cancel
	// the snapshot's workflow, which is to say delete the snapshot.
	dctx, _ := workflow.NewDisconnectedContext(ctx)
	if err := r.startSnapshotWorkflow(dctx, info); err != nil {
		return session.SnapshotOut{}, err
	}
	r.st.Latest = id
	return session.SnapshotOut{
		SnapshotID: id, Name: in.Name, SizeBytes: img.SizeBytes, Excluded: img.Excluded, CreatedAt: info.CreatedAt,
	}, nil
}

// takeImage makes the snapshot's image, of a sandbox that had stopped too: its
// files are all there. One that had to be restored is another: the caller must
// know before it is kept.
func (r *run) takeImage(ctx workflow.Context, spec activities.SnapshotSpec, name string) (activities.SnapshotImage, error) {
	incarnation := r.st.Sandbox.Ref.Incarnation
	for recoveries := 0; ; recoveries++ {
		var img activities.SnapshotImage
		spec.Sandbox = r.st.Sandbox.Ref
		changes := r.changes
		err := workflow.ExecuteActivity(r.host(ctx, prepare(summary(session.TakeSnapshot.Name, name))), activities.TakeSnapshot, spec).Get(ctx, &img)
		if session.FailureType(err) != session.FailureSandboxGone || recoveries == maxRecoveries {
			return img, err
		}
		r.recover(ctx, changes)
		if err := r.awaitSandbox(ctx); err != nil {
			return img, err
		}
		if r.st.Sandbox.Ref.Incarnation != incarnation {
			return img, session.Errorf(session.FailedPrecondition, "no snapshot was taken. %s", r.st.Notice)
		}
	}
}

func (r *run) startSnapshotWorkflow(ctx workflow.Context, info session.SnapshotInfo) error {
	cctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            session.SnapshotWorkflowIDPrefix + info.SnapshotID,
		TaskQueue:             session.TaskQueue,
		WorkflowTaskTimeout:   session.WorkflowTaskTimeout,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		StaticSummary:         info.Name,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(session.AttrOwner).ValueSet(r.in.Owner),
			temporal.NewSearchAttributeKeyKeyword(session.AttrSession).ValueSet(r.in.SessionID),
			temporal.NewSearchAttributeKeyKeyword(session.AttrName).ValueSet(info.Name),
			attrHost.ValueSet(r.st.Place.HostID),
		),
	})
	in := SnapshotInput{
		Owner: r.in.Owner, RetentionSeconds: int(r.o.SnapshotRetention.Seconds()),
		Record: session.SnapshotRecord{
			Found: true, Info: info, HostQueue: r.st.Place.Queue, HostID: r.st.Place.HostID, Image: r.image(),
		},
	}
	err := workflow.ExecuteChildWorkflow(cctx, session.SnapshotWorkflowType, in).GetChildWorkflowExecution().Get(ctx, nil)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil // by an earlier attempt of the same call
	}
	return err
}

// restore replaces the sandbox by one with the snapshot's files. The session
// keeps its journal: call IDs of before still answer.
func (r *run) restore(ctx workflow.Context, c call, in session.RestoreSnapshotIn) (session.RestoreSnapshotOut, error) {
	return once(ctx, r, c, r.exclusiveOrLost, func(ctx workflow.Context) (session.RestoreSnapshotOut, error) {
		return r.restoreFrom(ctx, in)
	})
}

func (r *run) restoreFrom(ctx workflow.Context, in session.RestoreSnapshotIn) (session.RestoreSnapshotOut, error) {
	var out session.RestoreSnapshotOut
	rec, err := r.findSnapshot(ctx, in.SnapshotID)
	if err != nil {
		return out, err
	}
	if rec.HostID != r.st.Place.HostID {
		return out, session.Errorf(session.FailedPrecondition,
			"snapshot %s is on another host than this session; start a new session with snapshot_id instead", in.SnapshotID)
	}
	// The image must be there before the present sandbox is given up.
	err = workflow.ExecuteActivity(r.host(ctx, prepare("check snapshot")), activities.CheckSnapshot, in.SnapshotID).Get(ctx, nil)
	if err != nil {
		return out, err
	}
	release, err := r.change(ctx)
	if err != nil {
		return out, err
	}
	defer release()
	if err := r.create(ctx, in.SnapshotID); err != nil {
		switch rerr := r.revive(ctx); {
		case rerr == nil: // the sandbox of before is still there
			r.st.Reason = ""
			r.setStatus(ctx, session.StatusRunning)
		case ctx.Err() == nil:
			r.st.Reason = "a restore failed half-way"
			r.setStatus(ctx, session.StatusLost)
		}
		return out, err
	}
	r.st.Reason, r.st.Notice, r.st.Latest = "", "", in.SnapshotID
	r.setStatus(ctx, session.StatusRunning)
	return session.RestoreSnapshotOut{SessionID: r.in.SessionID, Status: r.st.Status, SnapshotID: in.SnapshotID}, nil
}

// exclusive waits for a running sandbox and for other lifecycle operations to
// end. The context it gives breaks when the session ends.
func (r *run) exclusive(ctx workflow.Context) (_ workflow.Context, unlock func(), err error) {
	ectx, unlock, err := r.exclusiveOrLost(ctx)
	if err != nil {
		return nil, nil, err
	}
	wctx, done := r.breakable(ctx, onDrain)
	defer done()
	if err := r.awaitSandbox(wctx); err != nil {
		unlock()
		return nil, nil, err
	}
	return ectx, unlock, nil
}

// exclusiveOrLost is exclusive for operations that a lost sandbox allows too.
func (r *run) exclusiveOrLost(ctx workflow.Context) (_ workflow.Context, unlock func(), err error) {
	wctx, done := r.breakable(ctx, onDrain)
	defer done()
	if err := r.lifecycle.Lock(wctx); err != nil {
		return nil, nil, err
	}
	err = workflow.Await(wctx, func() bool {
		return r.st.Status != session.StatusStarting && !r.busy || r.st.Failure != nil || r.ending
	})
	if err == nil && r.ending {
		err = session.Ended(r.st.Reason)
	}
	if err != nil {
		r.lifecycle.Unlock()
		return nil, nil, err
	}
	ectx, edone := r.breakable(ctx, onEnd)
	return ectx, func() {
		edone()
		r.lifecycle.Unlock()
	}, nil
}

func (r *run) findSnapshot(ctx workflow.Context, id string) (session.SnapshotRecord, error) {
	var rec session.SnapshotRecord
	err := workflow.ExecuteActivity(anywhere(ctx, prepare("find snapshot")), activities.DescribeSnapshot,
		activities.SnapshotQuery{Owner: r.in.Owner, SnapshotID: id}).Get(ctx, &rec)
	return rec, err
}
