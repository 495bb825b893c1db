package activities

import (
	"context"
	"encoding/json"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// NearPrefix starts the names of the local activities that try a call on the
// worker that has the workflow at hand.
const NearPrefix = "Near"

// MaxNearBytes bounds what a near answer carries, as JSON: it goes with the
// workflow task, beside those of other calls.
const MaxNearBytes = 32 << 10

// NearTask is the argument of a near activity.
type NearTask[In any] struct {
	HostID string   `json:"host_id"` // of the session
	Task   Task[In] `json:"task"`
}

// NearAnswer is its result.
type NearAnswer[Out any] struct {
	// Done is false when the call is for the host's queue: its host is another,
	// the guest did not answer at once, the command still runs, or the answer is
	// large. It goes there under the same call ID, which takes effect once.
	Done bool `json:"done"`
	Out  Out  `json:"out"`
}

// Near holds the local activities of a host: the short way for calls that are
// over in a moment, without a task on the host's queue.
type Near struct {
	host   *Host
	hostID string
}

// NewNear makes the local activities of the host with this ID.
func NewNear(h *Host, hostID string) *Near { return &Near{host: h, hostID: hostID} }

// Register registers them with the worker that runs workflows.
func (n *Near) Register(r worker.ActivityRegistry) {
	for name, f := range map[string]any{
		RunCommand: near(n, n.host.runCommand, func(t Task[session.RunCommandIn], out session.RunCommandOut) bool {
			return out.Status != string(guest.StatusRunning) || t.In.Background()
		}),
		ReadOutput: near(n, n.host.readOutput, func(t Task[session.ReadOutputIn], out session.ReadOutputOut) bool {
			return out.Data != "" || out.EOF || t.In.WaitSeconds == 0
		}),
		SendInput: near(n, n.host.sendInput, always),
		ReadFile:  near(n, n.host.readFile, always),
		WriteFile: near(n, n.host.writeFile, always),
		EditFile:  near(n, n.host.editFile, always),
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: NearPrefix + name})
	}
}

func always[In, Out any](Task[In], Out) bool { return true }

// near makes a local activity of a host's: it answers if it can at once, says so
// if it cannot, and fails only with what the guest itself decided.
func near[In, Out any](n *Near, do func(context.Context, Task[In]) (Out, error), done func(Task[In], Out) bool) func(context.Context, NearTask[In]) (NearAnswer[Out], error) {
	return func(ctx context.Context, t NearTask[In]) (NearAnswer[Out], error) {
		if t.HostID != n.hostID {
			return NearAnswer[Out]{}, nil
		}
		ctx, release := holdSpans(ctx)
		out, err := do(ctx, t.Task)
		if err != nil {
			if session.FailureType(err) == "" || session.FailureType(err) == session.FailureSandboxGone {
				return NearAnswer[Out]{}, nil // a fault that may pass is the host queue's to retry
			}
			return NearAnswer[Out]{}, err
		}
		if !done(t.Task, out) || !small(out) {
			return NearAnswer[Out]{}, nil
		}
		release()
		return NearAnswer[Out]{Done: true, Out: out}, nil
	}
}

func small(out any) bool {
	b, err := json.Marshal(out)
	return err == nil && len(b) <= MaxNearBytes
}

// guestWait is how long the guest may wait for what a call waits for: the
// call's own time, what is left of its caller's patience, or the short time of
// a near call.
func (t Task[In]) guestWait(ctx context.Context, seconds int) (milliseconds int64) {
	wait := int64(seconds) * 1000
	if t.LeftMS > 0 {
		// Attempts before this one, and the queue, have used some of it. Both times
		// are of Temporal's clock.
		info := activity.GetInfo(ctx)
		wait = min(wait, max(1, t.LeftMS-max(0, info.StartedTime.Sub(info.ScheduledTime).Milliseconds())))
	}
	if t.NearMS > 0 {
		wait = min(wait, t.NearMS)
	}
	return wait
}
