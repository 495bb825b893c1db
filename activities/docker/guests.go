package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Guest implements activities.Backend. It does no I/O when ref has a container ID.
func (b *Backend) Guest(ctx context.Context, ref activities.SandboxRef) (guest.API, error) {
	if ref.ContainerID == "" {
		info, ok, err := b.inspectSandbox(ctx, ref)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, activities.ErrSandboxGone
		}
		ref.ContainerID = info.ID
	}
	client, err := b.streams.get(ref)
	if err != nil {
		return nil, err
	}
	return client, nil
}

// waitGuest waits until the guest of a running container answers, for
// Options.GuestWait. It ends early when the container does.
func (b *Backend) waitGuest(ctx context.Context, ref activities.SandboxRef) error {
	bounded, cancel := context.WithTimeoutCause(ctx, b.opts.GuestWait, errGuestSilent)
	defer cancel()
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		err := b.ping(bounded, ref)
		if err == nil || guest.CodeOf(err) != "" {
			return err
		}
		if dead := b.guestDied(bounded, ref); dead != nil {
			if session.CodeOf(dead) == session.FailedPrecondition {
				return dead
			}
			return fmt.Errorf("%w (%v)", dead, err) //nolint:errorlint // what the attempt met is not what the caller must know
		}
		if !pauseFor(bounded, pause) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w within %s: %w", errGuestSilent, b.opts.GuestWait, err)
		}
	}
}

var errGuestSilent = errors.New("the guest did not answer")

func (b *Backend) ping(ctx context.Context, ref activities.SandboxRef) error {
	client, err := b.streams.get(ref)
	if err != nil {
		return err
	}
	_, err = client.Hello(ctx)
	return err
}

// guestDied says why a guest cannot answer: its container has ended or is gone.
func (b *Backend) guestDied(ctx context.Context, ref activities.SandboxRef) error {
	info, ok, err := b.inspectSandbox(ctx, ref)
	switch {
	case err != nil:
		return nil //nolint:nilerr // the engine may answer at the next attempt
	case !ok:
		return activities.ErrSandboxGone
	case stateOf(info) == activities.SandboxStopped:
		if err := b.networkOpen(ctx, info); err != nil {
			return err
		}
		return fmt.Errorf("the guest ended with exit code %d (out of memory: %t) %s", info.State.ExitCode, info.State.OOMKilled, info.State.Error)
	}
	return nil
}
