package docker

import (
	"context"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// watchPause is the pause before the engine's events are asked for again when
// they have broken off.
const watchPause = time.Second

// Watch implements activities.Watcher. The engine's events tell of a death at
// once. When they begin, at first and after a break, it tells of every container
// of ours that does not run: what died in between had no event.
func (b *Backend) Watch(ctx context.Context, died func(activities.SandboxRef)) {
	for ctx.Err() == nil {
		err := b.watch(ctx, died)
		if ctx.Err() != nil {
			return
		}
		b.log.DebugContext(ctx, "the engine's events broke off", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}

func (b *Backend) watch(ctx context.Context, died func(activities.SandboxRef)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	filter := b.ours(session.LabelKind, kindContainer)
	filter.Add("type", string(events.ContainerEventType))
	filter.Add("event", string(events.ActionDie))
	filter.Add("event", string(events.ActionDestroy)) // of one that had died before
	messages, failed := b.api.Events(ctx, events.ListOptions{Filters: filter})
	all, err := b.api.ContainerList(ctx, container.ListOptions{All: true, Filters: b.ours(session.LabelKind, kindContainer)})
	if err != nil {
		return engineErr("list containers", err)
	}
	for _, c := range all {
		if c.State == container.StateExited || c.State == container.StateDead {
			b.tellDeath(c.ID, c.Labels, died)
		}
	}
	for {
		select {
		case m := <-messages:
			b.tellDeath(m.Actor.ID, m.Actor.Attributes, died)
		case err := <-failed:
			return err
		}
	}
}

// tellDeath tells of a container's death, unless it is this backend that removes it.
func (b *Backend) tellDeath(id string, labels map[string]string, died func(activities.SandboxRef)) {
	ref := activities.SandboxRef{SessionID: labels[session.LabelSession], Incarnation: incarnationOf(labels), ContainerID: id}
	if _, ours := b.removing.Load(id); ours || !sessionPattern.MatchString(ref.SessionID) || ref.Incarnation < 1 {
		return
	}
	died(ref)
}
