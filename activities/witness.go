package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Executions tells what Temporal knows of workflows; session.Client does.
type Executions interface {
	// Life tells of a workflow's newest run, or of the one with a run ID. An error
	// says that it is not known.
	Life(ctx context.Context, workflowID, runID string) (session.Life, error)
	// ForgetReaps deletes the looks of a host's reaper that found nothing to do.
	ForgetReaps(ctx context.Context, namespace, hostID string) error
}

const (
	// witnessWithin bounds a question to Temporal.
	witnessWithin = 5 * time.Second
	// maxDoubts is how many questions may stay without an answer before no more
	// are asked: the next look comes.
	maxDoubts = 3
)

// witness asks Temporal whether workflows live. That it knows none of an ID is
// believed only if it knows, asked right after, the very run in which the reaper
// works: a Temporal whose data was lost, or another at the same address, does not.
type witness struct {
	executions Executions
	own        workflow.Execution
	doubts     int
}

var (
	errForeign = errors.New("it does not know the reaper's own workflow, so what it does not know proves nothing")
	errDoubts  = errors.New("it was not asked, as it had not answered before")
)

func (w *witness) life(ctx context.Context, workflowID string) (session.Life, error) {
	if w.doubts >= maxDoubts {
		return "", errDoubts
	}
	life, err := w.ask(ctx, workflowID, "")
	if err == nil && life == session.LifeUnknown {
		var own session.Life
		if own, err = w.ask(ctx, w.own.ID, w.own.RunID); err == nil && own != session.LifeRunning {
			err = errForeign
		}
	}
	if err != nil {
		w.doubts++
		return "", fmt.Errorf("ask Temporal for %s: %w", workflowID, err)
	}
	return life, nil
}

func (w *witness) ask(ctx context.Context, workflowID, runID string) (session.Life, error) {
	ctx, cancel := context.WithTimeout(ctx, witnessWithin)
	defer cancel()
	return w.executions.Life(ctx, workflowID, runID)
}
