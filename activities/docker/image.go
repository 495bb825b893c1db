package docker

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// readyImage is an image with the current guest in it.
type readyImage struct {
	id         string
	reference  string // as asked for
	workingDir string
	volumes    []string // the VOLUMEs it declares, sorted
}

// prepareImage finds or makes the image for a sandbox: a snapshot's own if its
// guest is current, else one derived from it or from the image asked for.
func (b *Backend) prepareImage(ctx context.Context, spec activities.SandboxSpec) (readyImage, error) {
	base, err := b.baseImage(ctx, spec)
	if err != nil {
		return readyImage{}, err
	}
	labels := imageLabels(base.image)
	if labels[labelGuest] == b.guest.version && b.isOurs(labels, kindImage) {
		return ready(base.image, base.reference), nil
	}
	derived, err := b.derivedImage(ctx, base)
	if err != nil {
		return readyImage{}, err
	}
	return ready(derived, base.reference), nil
}

// baseImage is what a derived image is made from.
type baseImage struct {
	image      image.InspectResponse
	reference  string // as asked for; a snapshot's is that of its session
	snapshotID string
}

func (b *Backend) baseImage(ctx context.Context, spec activities.SandboxSpec) (baseImage, error) {
	if spec.SnapshotID != "" {
		found, err := b.inspectSnapshot(ctx, spec.SnapshotID)
		return baseImage{image: found, reference: imageLabels(found)[labelImage], snapshotID: spec.SnapshotID}, err
	}
	ref := orDefault(spec.Image, b.opts.DefaultImage)
	if ref == "" {
		return baseImage{}, session.Errorf(session.InvalidArgument, "image: this server has no default image; name one")
	}
	found, err := b.inspectOrPull(ctx, ref)
	if err != nil {
		return baseImage{}, err
	}
	return baseImage{image: found, reference: ref}, b.usable(found, ref)
}

// usable refuses what can be told without looking into an image.
func (b *Backend) usable(found image.InspectResponse, ref string) error {
	if found.Os != "linux" || found.Architecture != b.arch {
		return session.Errorf(session.InvalidArgument, "image %q is for %s/%s, this host runs linux/%s; use an image for that platform",
			ref, found.Os, found.Architecture, b.arch)
	}
	// A snapshot has an owner, who is checked where a snapshot_id is given. Its
	// image must not be another way in.
	if kind := imageLabels(found)[session.LabelKind]; kind != "" {
		return session.Errorf(session.InvalidArgument, "image %q is not for direct use; give a snapshot's snapshot_id instead", ref)
	}
	for _, volume := range declaredVolumes(found) {
		if covers(volume, homeDir) || covers(volume, guestDir) || covers(volume, "/etc") {
			return session.Errorf(session.InvalidArgument, "image %q declares VOLUME %s, which would keep its files out of snapshots; "+
				"use an image without that", ref, volume)
		}
	}
	return nil
}

func ready(img image.InspectResponse, reference string) readyImage {
	return readyImage{id: img.ID, reference: reference, workingDir: img.Config.WorkingDir, volumes: declaredVolumes(img)}
}

func imageLabels(img image.InspectResponse) map[string]string {
	if img.Config == nil {
		return nil
	}
	return img.Config.Labels
}

// declaredVolumes gives an image's VOLUME paths, cleaned and sorted.
func declaredVolumes(img image.InspectResponse) []string {
	if img.Config == nil {
		return nil
	}
	volumes := slices.Collect(maps.Keys(img.Config.Volumes))
	for i := range volumes {
		volumes[i] = path.Clean("/" + volumes[i])
	}
	slices.Sort(volumes)
	return slices.Compact(volumes)
}

// covers tells whether dir is place or one of its parents.
func covers(dir, place string) bool {
	return dir == "/" || dir == place || strings.HasPrefix(place, dir+"/")
}

// inspectImage gives the image of a reference or ID; ok is false when there is none.
func (b *Backend) inspectImage(ctx context.Context, ref string) (found image.InspectResponse, ok bool, err error) {
	found, err = b.api.ImageInspect(ctx, ref)
	switch {
	case errdefs.IsNotFound(err):
		return found, false, nil
	case errdefs.IsInvalidArgument(err):
		return found, false, session.Wrap(err, session.InvalidArgument, "image: %q is no image reference such as debian:bookworm-slim", ref)
	case err != nil:
		return found, false, engineErr("inspect image "+ref, err)
	case found.Config == nil:
		return found, false, fmt.Errorf("%w: image %s has no config", errEngine, ref)
	}
	return found, true, nil
}
