package activities

import (
	"context"
	"errors"
)

func (h *Host) takeSnapshot(ctx context.Context, spec SnapshotSpec) (SnapshotImage, error) {
	ctx, stop := heartbeat(ctx)
	defer stop()
	img, err := h.backend.TakeSnapshot(ctx, spec)
	if errors.Is(err, ErrSandboxGone) || errors.Is(err, ErrSuperseded) {
		return img, gone(spec.Sandbox, err)
	}
	return img, report(err)
}

func (h *Host) checkSnapshot(ctx context.Context, snapshotID string) (SnapshotImage, error) {
	ctx, stop := heartbeat(ctx)
	defer stop()
	img, err := h.backend.FindSnapshot(ctx, snapshotID)
	return img, report(err)
}

func (h *Host) removeSnapshot(ctx context.Context, snapshotID string) error {
	ctx, stop := heartbeat(ctx)
	defer stop()
	return report(h.backend.RemoveSnapshot(ctx, snapshotID))
}
