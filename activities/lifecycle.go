package activities

import (
	"context"
	"errors"
	"time"

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
	return sb, report(err)
}

func (h *Host) reviveSandbox(ctx context.Context, ref SandboxRef) (Sandbox, error) {
	ctx, stop := heartbeat(ctx)
	defer stop()
	sb, err := h.backend.ReviveSandbox(ctx, ref)
	if errors.Is(err, ErrSandboxGone) || errors.Is(err, ErrSuperseded) {
		return sb, gone(ref, err)
	}
	return sb, report(err)
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
