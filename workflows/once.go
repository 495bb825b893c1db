package workflows

import (
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/workflow"
)

// doneCall is a call that took effect in the workflow itself and not in the
// guest, whose journal would know it.
type doneCall struct {
	CallID string          `json:"call_id"`
	Digest string          `json:"digest"`
	Out    json.RawMessage `json:"out"`
}

// maxDone bounds what is remembered of snapshots and restores: about 150 KiB of
// the state. Older ones are forgotten.
const maxDone = 500

// once performs a lifecycle operation under exclusion, at most once by its call
// ID, also when the call is sent again to a later run.
func once[Out any](ctx workflow.Context, r *run, c call, lock lockFunc, do func(workflow.Context) (Out, error)) (Out, error) {
	var out Out
	if d := r.done(c.id); d != nil { // whatever state the session is in now
		return out, json.Unmarshal(d.Out, &out) //workflowcheck:ignore its result depends on d.Out alone
	}
	lctx, unlock, err := lock(ctx)
	if err != nil {
		return out, err
	}
	defer unlock()
	if d := r.done(c.id); d != nil { // meanwhile
		return out, json.Unmarshal(d.Out, &out) //workflowcheck:ignore as above
	}
	if out, err = do(lctx); err != nil {
		return out, err
	}
	b, err := json.Marshal(out) //workflowcheck:ignore as above
	if err != nil {
		return out, err
	}
	r.st.Done = append(r.st.Done, doneCall{c.id, c.digest, b})
	if extra := len(r.st.Done) - maxDone; extra > 0 {
		r.st.Done = slices.Delete(r.st.Done, 0, extra)
	}
	return out, nil
}

// done finds a lifecycle call that took effect, or nil.
func (r *run) done(callID string) *doneCall {
	for i := range r.st.Done {
		if r.st.Done[i].CallID == callID {
			return &r.st.Done[i]
		}
	}
	return nil
}

// lockFunc gives exclusion and a context that breaks when the session ends.
type lockFunc func(workflow.Context) (_ workflow.Context, unlock func(), err error)
