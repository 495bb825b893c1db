package docker

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Inventory implements activities.Backend. What belongs to no session or
// snapshot has neither ID: derived images and the bridge, which are shared and
// stay, and containers for a moment (kindBuild).
func (b *Backend) Inventory(ctx context.Context) ([]activities.Resource, error) {
	containers, err := b.api.ContainerList(ctx, container.ListOptions{All: true, Filters: b.ours()})
	if err != nil {
		return nil, engineErr("list containers", err)
	}
	volumes, err := b.api.VolumeList(ctx, volume.ListOptions{Filters: b.ours()})
	if err != nil {
		return nil, engineErr("list volumes", err)
	}
	networks, err := b.api.NetworkList(ctx, network.ListOptions{Filters: b.ours()})
	if err != nil {
		return nil, engineErr("list networks", err)
	}
	bridge, err := b.findBridge(ctx)
	if err != nil {
		return nil, err
	}
	images, err := b.api.ImageList(ctx, image.ListOptions{Filters: b.ours()})
	if err != nil {
		return nil, engineErr("list images", err)
	}
	var all []activities.Resource
	used := map[string]bool{}
	for _, c := range containers {
		used[c.ImageID] = true
		r := resource(activities.KindContainer, c.ID, c.Labels, time.Unix(c.Created, 0))
		r.Role, r.Running = b.containerRole(c.Labels, c.Names), c.State == container.StateRunning
		all = append(all, r)
	}
	for _, v := range volumes.Volumes {
		created, _ := time.Parse(time.RFC3339, v.CreatedAt)
		r := resource(activities.KindVolume, v.Name, v.Labels, created)
		r.Role = b.volumeRole(v)
		all = append(all, r)
	}
	for _, n := range networks {
		r := resource(activities.KindNetwork, n.ID, n.Labels, n.Created)
		r.Role = b.networkRole(n.Labels, n.Name, n.ID == bridge)
		all = append(all, r)
	}
	for _, i := range images {
		r := resource(activities.KindImage, i.ID, i.Labels, time.Unix(i.Created, 0))
		r.Role, r.InUse = b.imageRole(i.Labels, i.RepoTags), used[i.ID]
		if r.Role == activities.RoleDerived {
			r.Default = i.Labels[labelImage] == b.opts.DefaultImage && i.Labels[labelGuest] == b.guest.version
			if r.LastUsed, err = b.lastUsed(ctx, i.ID); err != nil {
				return nil, err
			}
		}
		all = append(all, r)
	}
	return all, nil
}

// resource takes the later of two times of creation, the engine's own and the
// label's: an inherited label is earlier, as may be a remote engine's clock, and
// what is young is left alone.
func resource(kind activities.ResourceKind, id string, labels map[string]string, created time.Time) activities.Resource {
	if labelled := createdOf(labels); labelled.After(created) {
		created = labelled
	}
	r := activities.Resource{
		Kind: kind, ID: id, SessionID: labels[session.LabelSession],
		Incarnation: incarnationOf(labels), Created: created.UTC(),
	}
	if kind == activities.KindImage { // on a container it is the one it was made from
		r.SnapshotID = labels[session.LabelSnapshot]
	}
	return r
}

// Below, the roles: what an object is where labels, kind and name agree. What
// somebody made of an image of ours carries its labels, but not all of these.

func (b *Backend) containerRole(labels map[string]string, names []string) activities.Role {
	id, incarnation := labels[session.LabelSession], incarnationOf(labels)
	switch {
	case b.isOurs(labels, kindBuild): // named by the engine
		return activities.RoleBuild
	case len(names) > 0 && incarnation > 0 && sessionPattern.MatchString(id) && b.isSandbox(labels, names[0], id, incarnation):
		return activities.RoleSandbox
	}
	return ""
}

func (b *Backend) volumeRole(v *volume.Volume) activities.Role {
	id := v.Labels[session.LabelSession]
	switch {
	case !sessionPattern.MatchString(id) || !b.isVolume(v):
		return ""
	case v.Name == volumeName(id):
		return activities.RoleJournal
	}
	return activities.RoleVolume
}

func (b *Backend) networkRole(labels map[string]string, name string, bridge bool) activities.Role {
	switch {
	case bridge:
		return activities.RoleBridge
	case b.isOurs(labels, kindNetwork) && name == b.bridgeName():
		return activities.RoleSpare
	}
	return ""
}

// imageRole finds an image that carries a foreign name too to be somebody's.
func (b *Backend) imageRole(labels map[string]string, tags []string) activities.Role {
	tags = slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return tag == noTag })
	id := labels[session.LabelSnapshot]
	switch {
	case b.isOurs(labels, kindImage) && snapshotPattern.MatchString(id) &&
		!slices.ContainsFunc(tags, func(tag string) bool { return tag != snapshotRef(id) }):
		return activities.RoleSnapshot
	case b.isOurs(labels, kindDerived) && (id == "" || snapshotPattern.MatchString(id)) &&
		!slices.ContainsFunc(tags, func(tag string) bool { return !strings.HasPrefix(tag, derivedName+":") }):
		return activities.RoleDerived
	}
	return ""
}
