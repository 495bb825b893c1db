package docker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// RemoveSession implements activities.Backend. Nothing gets time to say goodbye:
// it takes as long as the engine needs for a kill.
func (b *Backend) RemoveSession(ctx context.Context, sessionID string) error {
	if !sessionPattern.MatchString(sessionID) {
		return nil
	}
	all, err := b.sandboxesOf(ctx, sessionID)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := b.removeContainer(ctx, c.ID, c.State == container.StatePaused); err != nil {
			return err
		}
	}
	filter := b.ours(session.LabelSession, sessionID)
	err = errors.Join(b.removeVolumes(ctx, filter, ""), b.removeNetworks(ctx, filter))
	for _, c := range all {
		b.removeDeleted(ctx, c.ImageID)
	}
	return err
}

// removeContainer kills and removes a container, and returns when it is gone.
func (b *Backend) removeContainer(ctx context.Context, id string, paused bool) error {
	b.removing.Store(id, nil)
	// The event of its death may come a moment after the answer.
	defer time.AfterFunc(watchPause, func() { b.removing.Delete(id) })
	b.streams.dropContainer(id)
	if paused {
		// A frozen process dies only when it is thawed.
		if err := b.api.ContainerUnpause(ctx, id); err != nil && !errdefs.IsNotFound(err) {
			b.log.DebugContext(ctx, "unpause before removal", "container", id, "error", err)
		}
	}
	err := b.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	switch {
	case err == nil, errdefs.IsNotFound(err):
		return nil
	case errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress"):
		return b.waitRemoved(ctx, id)
	}
	return engineErr("remove container", err)
}

// waitRemoved waits for the end of a removal that somebody else began.
func (b *Backend) waitRemoved(ctx context.Context, id string) error {
	done, failed := b.api.ContainerWait(ctx, id, container.WaitConditionRemoved)
	select {
	case <-done:
		return nil
	case err := <-failed:
		if errdefs.IsNotFound(err) {
			return nil
		}
		return engineErr("wait for the removal of a container", err)
	}
}

// removeVolumes removes volumes that carry our labels under a name of ours, but
// for the one named keep.
func (b *Backend) removeVolumes(ctx context.Context, filter filters.Args, keep string) error {
	filter = filter.Clone()
	filter.Add("label", session.LabelKind+"="+kindVolume)
	found, err := b.api.VolumeList(ctx, volume.ListOptions{Filters: filter})
	if err != nil {
		return engineErr("list volumes", err)
	}
	var all []error
	for _, v := range found.Volumes {
		if v.Name == keep || !b.isVolume(v) {
			continue
		}
		if err := b.api.VolumeRemove(ctx, v.Name, true); err != nil && !errdefs.IsNotFound(err) {
			all = append(all, engineErr("remove volume", err))
		}
	}
	return errors.Join(all...)
}

// isVolume tells whether a volume's labels and name agree, as isSandbox does.
func (b *Backend) isVolume(v *volume.Volume) bool {
	id := v.Labels[session.LabelSession]
	return b.isOurs(v.Labels, kindVolume) &&
		(v.Name == volumeName(id) || strings.HasPrefix(v.Name, containerName(id, incarnationOf(v.Labels))+"-v"))
}

func (b *Backend) removeNetworks(ctx context.Context, filter filters.Args) error {
	filter = filter.Clone()
	filter.Add("label", session.LabelKind+"="+kindNetwork)
	found, err := b.api.NetworkList(ctx, network.ListOptions{Filters: filter})
	if err != nil {
		return engineErr("list networks", err)
	}
	var all []error
	for _, n := range found {
		if err := b.api.NetworkRemove(ctx, n.ID); err != nil && !errdefs.IsNotFound(err) {
			all = append(all, engineErr("remove network", err))
		}
	}
	return errors.Join(all...)
}

// removeDeleted removes the image of a container that is gone, if it is that of
// a snapshot that was deleted meanwhile: nothing names it any more.
func (b *Backend) removeDeleted(ctx context.Context, imageID string) {
	found, ok, err := b.inspectImage(ctx, imageID)
	if err != nil || !ok || len(found.RepoTags) > 0 {
		return
	}
	labels := imageLabels(found)
	if !b.isOurs(labels, kindImage) && !b.isOurs(labels, kindDerived) {
		return
	}
	b.removeImage(ctx, imageID)
	// The container's image may have been derived from the snapshot's.
	id := labels[session.LabelSnapshot]
	if _, err := b.inspectSnapshot(ctx, id); id != "" && session.CodeOf(err) == session.NotFound {
		if err := b.RemoveSnapshot(ctx, id); err != nil {
			b.log.WarnContext(ctx, "deleted snapshot not removed", "snapshot", id, "error", err)
		}
	}
}
