package workflows

import (
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/session"
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
	lctx, unlock, err := lock(ctx)
	if err != nil {
		return out, err
	}
	defer unlock()
	if i := slices.IndexFunc(r.st.Done, func(d doneCall) bool { return d.CallID == c.id }); i >= 0 {
		if r.st.Done[i].Digest != c.digest {
			return out, session.ReusedCallID(c.id)
		}
		return out, json.Unmarshal(r.st.Done[i].Out, &out)
	}
	if out, err = do(lctx); err != nil {
		return out, err
	}
	b, err := json.Marshal(out)
	if err != nil {
		return out, err
	}
	r.st.Done = append(r.st.Done, doneCall{c.id, c.digest, b})
	if extra := len(r.st.Done) - maxDone; extra > 0 {
		r.st.Done = slices.Delete(r.st.Done, 0, extra)
	}
	return out, nil
}

// lockFunc gives exclusion and a context that breaks when the session ends.
type lockFunc func(workflow.Context) (_ workflow.Context, unlock func(), err error)
