package activities

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func (h *Host) createSandbox(ctx context.Context, spec SandboxSpec) (Sandbox, error) {
	ctx, stop := heartbeat(ctx)
	defer stop()
	sb, err := h.backend.CreateSandbox(ctx, spec)
	if errors.Is(err, ErrSandboxGone) || errors.Is(err, ErrSuperseded) {
		return sb, gone(SandboxRef{SessionID: spec.SessionID, Incarnation: spec.Incarnation}, err)
	}
	return sb, h.reportRefusal(ctx, spec.SessionID, err)
}

func (h *Host) reviveSandbox(ctx context.Context, ref SandboxRef) (Sandbox, error) {
	ctx, stop := heartbeat(ctx)
	defer stop()
	sb, err := h.backend.ReviveSandbox(ctx, ref)
	if errors.Is(err, ErrSandboxGone) || errors.Is(err, ErrSuperseded) {
		return sb, gone(ref, err)
	}
	return sb, h.reportRefusal(ctx, ref.SessionID, err)
}

// refusals is how often an engine may refuse to run a sandbox before that is
// final: with the back-off of these activities about half a minute.
const refusals = 20

// reportRefusal is report for what makes and starts sandboxes.
func (h *Host) reportRefusal(ctx context.Context, sessionID string, err error) error {
	if !errors.Is(err, ErrRefused) || activity.GetInfo(ctx).Attempt < refusals {
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
