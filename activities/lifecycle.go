package activities

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func (h *Host) createSandbox(ctx context.Context, spec SandboxSpec) (Sandbox, error) {
	ctx, stop := heartbeat(ctx)
	defer stop()
	sb, err := h.backend.CreateSandbox(ctx, spec)
	refused := h.refusals.count(spec.SessionID, err)
	if errors.Is(err, ErrSandboxGone) || errors.Is(err, ErrSuperseded) {
		return sb, gone(SandboxRef{SessionID: spec.SessionID, Incarnation: spec.Incarnation}, err)
	}
	return sb, h.reportRefusal(ctx, spec.SessionID, refused, err)
}

func (h *Host) reviveSandbox(ctx context.Context, ref SandboxRef) (Sandbox, error) {
	ctx, stop := heartbeat(ctx)
	defer stop()
	sb, err := h.backend.ReviveSandbox(ctx, ref)
	refused := h.refusals.count(ref.SessionID, err)
	if errors.Is(err, ErrSandboxGone) || errors.Is(err, ErrSuperseded) {
		return sb, gone(ref, err)
	}
	return sb, h.reportRefusal(ctx, ref.SessionID, refused, err)
}

// maxRefusals is how often an engine may refuse to run a sandbox, one time after
// the other, before that is final: with the back-off of these activities about
// half a minute.
const maxRefusals = 20

// refusals counts, by session, how often an engine has refused without doing
// anything else in between. An engine that was away begins anew: it may refuse
// for a moment when it is back.
type refusals struct {
	mu  sync.Mutex
	now map[string]int
}

func (r *refusals) count(sessionID string, err error) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.Is(err, ErrRefused) {
		delete(r.now, sessionID)
		return 0
	}
	if r.now == nil {
		r.now = map[string]int{}
	}
	r.now[sessionID]++
	n := r.now[sessionID]
	if n >= maxRefusals {
		delete(r.now, sessionID)
	}
	return n
}

// reportRefusal is report for what makes and starts sandboxes.
func (h *Host) reportRefusal(ctx context.Context, sessionID string, refused int, err error) error {
	if refused < maxRefusals {
		return report(err)
	}
	h.log.ErrorContext(ctx, "the engine refuses to run a sandbox", session.KeySession, sessionID, "error", err)
	const most = 300
	words := err.Error()
	if len(words) > most {
		words = strings.ToValidUTF8(words[:most], "") + " ..."
	}
	return session.EncodeError(session.Wrap(err, session.Unavailable, "the engine refuses to run the sandbox: %s", words))
}

func (h *Host) removeSession(ctx context.Context, sessionID string) error {
	ctx, stop := heartbeat(ctx)
	defer stop()
	h.refusals.count(sessionID, nil) // nothing of it is started any more
	return report(h.backend.RemoveSession(ctx, sessionID))
}

func (h *Host) describeUsage(ctx context.Context, ref SandboxRef) (UsageReport, error) {
	return onGuest(ctx, h, ref, func(ctx context.Context, g guest.API) (UsageReport, error) {
		u, err := g.Usage(ctx)
		if err != nil {
			return UsageReport{}, err
		}
		r := UsageReport{
			Usage: session.Usage{
				MemoryBytes: u.MemoryBytes, MemoryLimitBytes: u.MemoryLimitBytes, CPUSeconds: u.CPUSeconds,
				PIDs: u.PIDs, PIDsLimit: u.PIDsLimit, DiskBytes: u.DiskBytes,
			},
			Commands: []session.RunningCommand{},
		}
		for _, c := range u.Running {
			r.Commands = append(r.Commands, session.RunningCommand{
				CommandID: c.CallID, Command: lossy([]byte(c.Command)), StartedAt: session.Time(time.UnixMilli(c.StartedUnixMS)),
			})
		}
		return r, nil
	})
}
