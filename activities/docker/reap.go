package docker

import (
	"context"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// RemoveResource implements activities.Backend. Each object is inspected anew:
// the inventory may be minutes old.
func (b *Backend) RemoveResource(ctx context.Context, r activities.Resource) error {
	switch r.Role {
	case activities.RoleSandbox:
		return b.reapSandbox(ctx, r)
	case activities.RoleBuild:
		return b.reapBuild(ctx, r)
	case activities.RoleJournal, activities.RoleVolume:
		return b.reapVolume(ctx, r)
	case activities.RoleSpare:
		return b.reapNetwork(ctx, r)
	case activities.RoleSnapshot, activities.RoleDerived:
		return b.reapImage(ctx, r)
	case activities.RoleBridge: // sandboxes share it
	}
	return nil
}

func (b *Backend) reapSandbox(ctx context.Context, r activities.Resource) error {
	info, ok, err := b.inspectSandbox(ctx, activities.SandboxRef{SessionID: r.SessionID, Incarnation: r.Incarnation, ContainerID: r.ID})
	if err != nil || !ok {
		return err
	}
	return b.removeContainer(ctx, info.ID, info.State.Paused)
}

func (b *Backend) reapBuild(ctx context.Context, r activities.Resource) error {
	info, err := b.api.ContainerInspect(ctx, r.ID)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return engineErr("inspect container", err)
	}
	if info.Config == nil || !b.isOurs(info.Config.Labels, kindBuild) {
		return nil
	}
	return b.removeContainer(ctx, info.ID, info.State != nil && info.State.Paused)
}

func (b *Backend) reapVolume(ctx context.Context, r activities.Resource) error {
	v, err := b.api.VolumeInspect(ctx, r.ID)
	if err == nil && (b.volumeRole(&v) != r.Role || v.Labels[session.LabelSession] != r.SessionID || incarnationOf(v.Labels) != r.Incarnation) {
		return nil
	}
	if err == nil {
		err = b.api.VolumeRemove(ctx, v.Name, false)
	}
	return reaped("remove volume", err)
}

func (b *Backend) reapNetwork(ctx context.Context, r activities.Resource) error {
	bridge, err := b.findBridge(ctx)
	if err != nil {
		return err
	}
	n, err := b.api.NetworkInspect(ctx, r.ID, network.InspectOptions{})
	if err == nil && b.networkRole(n.Labels, n.Name, n.ID == bridge) != activities.RoleSpare {
		return nil
	}
	if err == nil {
		err = b.api.NetworkRemove(ctx, n.ID)
	}
	return reaped("remove network", err)
}

// reapImage removes an image with its name, unless something uses it. Parents
// without a name stay: they may be the operator's.
func (b *Backend) reapImage(ctx context.Context, r activities.Resource) error {
	found, ok, err := b.inspectImage(ctx, r.ID)
	if err != nil || !ok {
		return err
	}
	if labels := imageLabels(found); b.imageRole(labels, found.RepoTags) != r.Role || labels[session.LabelSnapshot] != r.SnapshotID {
		return nil
	}
	_, err = b.api.ImageRemove(ctx, found.ID, image.RemoveOptions{})
	return reaped("remove image", err)
}

// reaped takes what is gone, or in use, for no fault.
func reaped(what string, err error) error {
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) || errdefs.IsPermissionDenied(err) {
		return nil
	}
	return engineErr(what, err)
}

// useAgain is how exactly it is known when a derived image was last used.
var useAgain = 24 * time.Hour

// lastUsed tells when a derived image was last named, which noteUse makes the
// time of its last use; zero where the engine does not tell.
func (b *Backend) lastUsed(ctx context.Context, id string) (time.Time, error) {
	found, ok, err := b.inspectImage(ctx, id)
	if err != nil || !ok {
		return time.Time{}, err
	}
	return namedAt(found), nil
}

func namedAt(found image.InspectResponse) time.Time {
	if found.Metadata.LastTagTime.Unix() <= 0 {
		return time.Time{}
	}
	return found.Metadata.LastTagTime.UTC()
}

// noteUse gives a derived image its name again, at most once a day: the engine
// remembers when. Where it does not, the image stays for good.
func (b *Backend) noteUse(ctx context.Context, found image.InspectResponse, ref string) {
	named := namedAt(found)
	if named.IsZero() || time.Since(named) < useAgain {
		return
	}
	if err := b.api.ImageTag(ctx, found.ID, ref); err != nil {
		b.log.DebugContext(ctx, "use of a derived image not noted", "image", ref, "error", err)
	}
}
