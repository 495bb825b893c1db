package docker

import (
	"context"
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
	images, err := b.api.ImageList(ctx, image.ListOptions{Filters: b.ours()})
	if err != nil {
		return nil, engineErr("list images", err)
	}
	var all []activities.Resource
	for _, c := range containers {
		all = append(all, resource(activities.KindContainer, c.ID, c.Labels, time.Unix(c.Created, 0)))
	}
	for _, v := range volumes.Volumes {
		created, _ := time.Parse(time.RFC3339, v.CreatedAt)
		all = append(all, resource(activities.KindVolume, v.Name, v.Labels, created))
	}
	for _, n := range networks {
		all = append(all, resource(activities.KindNetwork, n.ID, n.Labels, n.Created))
	}
	for _, i := range images {
		all = append(all, resource(activities.KindImage, i.ID, i.Labels, time.Unix(i.Created, 0)))
	}
	return all, nil
}

// resource prefers the engine's own time of creation: a label may be inherited.
func resource(kind activities.ResourceKind, id string, labels map[string]string, created time.Time) activities.Resource {
	if created.Unix() <= 0 {
		created = createdOf(labels)
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
