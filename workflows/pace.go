package workflows

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"
)

// taskBytes is how many bytes of payloads a run sends with one workflow task.
// Temporal takes messages of 4 MiB, and terminates a workflow whose worker sends
// more: then the session would be gone.
const taskBytes = 3 << 19 // 1.5 MiB

// pace spreads over workflow tasks what many calls send at once: the requests
// that are accepted, the inputs of activities, the results of updates.
type pace struct {
	task int // the present task, by the length of history when it began
	used int // bytes it sends so far
	turn workflow.Mutex
}

func newPace(ctx workflow.Context) *pace { return &pace{turn: workflow.NewMutex(ctx)} }

// fits tells whether so many bytes may go with the present task. One payload
// always may. It changes nothing, so that validators can ask.
func (p *pace) fits(ctx workflow.Context, bytes int) bool {
	return p.task != taskOf(ctx) || p.used == 0 || p.used+bytes <= taskBytes
}

// add counts bytes that go with the present task.
func (p *pace) add(ctx workflow.Context, bytes int) {
	if t := taskOf(ctx); p.task != t {
		p.task, p.used = t, 0
	}
	p.used += bytes
}

// wait waits for a task that so many bytes may go with, and counts them.
func (p *pace) wait(ctx workflow.Context, bytes int) error {
	if p.fits(ctx, bytes) {
		p.add(ctx, bytes)
		return nil
	}
	if err := p.turn.Lock(ctx); err != nil {
		return err
	}
	defer p.turn.Unlock()
	for !p.fits(ctx, bytes) {
		if err := workflow.Sleep(ctx, time.Millisecond); err != nil { // a timer brings the next task
			return err
		}
	}
	p.add(ctx, bytes)
	return nil
}

// taskOf names the present workflow task, in a replay too.
func taskOf(ctx workflow.Context) int { return workflow.GetInfo(ctx).GetCurrentHistoryLength() }

// payloadBytes is how large a value is in a history; compression may make it
// less.
func payloadBytes(v any) int {
	b, err := json.Marshal(v) //workflowcheck:ignore its result depends on v alone
	if err != nil {
		return 0 // the SDK fails on it where it matters
	}
	return len(b)
}
