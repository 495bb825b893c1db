package docker

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// TakeSnapshot implements activities.Backend. The engine itself pauses the
// container for the commit and wakes it afterwards, also when this process dies
// meanwhile. The guest's stream stays open and just gets no answers for so long.
func (b *Backend) TakeSnapshot(ctx context.Context, spec activities.SnapshotSpec) (activities.SnapshotImage, error) {
	if !snapshotPattern.MatchString(spec.SnapshotID) {
		return activities.SnapshotImage{}, fmt.Errorf("snapshot ID %q is malformed", spec.SnapshotID)
	}
	if found, err := b.FindSnapshot(ctx, spec.SnapshotID); session.CodeOf(err) != session.NotFound {
		return found, err
	}
	end, err := b.commits.begin(ctx, orDefault(spec.Sandbox.ContainerID, containerName(spec.Sandbox.SessionID, spec.Sandbox.Incarnation)))
	if err != nil {
		return activities.SnapshotImage{}, err
	}
	// The engine goes on with a commit when ctx ends, and the turn with it.
	type result struct {
		image activities.SnapshotImage
		err   error
	}
	done := make(chan result, 1)
	b.background.Go(func() {
		defer end()
		ctx, cancel := b.outlive(ctx, commitTimeout)
		defer cancel()
		image, err := b.commit(ctx, spec)
		done <- result{image, err}
	})
	select {
	case r := <-done:
		return r.image, r.err
	case <-ctx.Done():
		return activities.SnapshotImage{}, ctx.Err()
	}
}

// commitTimeout bounds a commit: gigabytes are copied in it.
const commitTimeout = 15 * time.Minute

func (b *Backend) commit(ctx context.Context, spec activities.SnapshotSpec) (activities.SnapshotImage, error) {
	// The turn before this one may have been the same snapshot's.
	if found, err := b.FindSnapshot(ctx, spec.SnapshotID); session.CodeOf(err) != session.NotFound {
		return found, err
	}
	info, ok, err := b.inspectSandbox(ctx, spec.Sandbox)
	if err != nil {
		return activities.SnapshotImage{}, err
	}
	if !ok || stateOf(info) == activities.SandboxMissing {
		return activities.SnapshotImage{}, activities.ErrSandboxGone
	}
	_, err = b.api.ContainerCommit(ctx, info.ID, container.CommitOptions{
		Reference: snapshotRef(spec.SnapshotID),
		Comment:   "mcp-sandbox snapshot " + spec.SnapshotID,
		Pause:     stateOf(info) == activities.SandboxRunning,
		Config:    b.snapshotConfig(spec, info),
	})
	if errdefs.IsNotFound(err) {
		return activities.SnapshotImage{}, activities.ErrSandboxGone
	}
	if err != nil {
		return activities.SnapshotImage{}, engineErr("commit", err)
	}
	return b.FindSnapshot(ctx, spec.SnapshotID)
}

// snapshotConfig overrides what a commit would copy from the container: its
// labels, and the command that names the session.
func (b *Backend) snapshotConfig(spec activities.SnapshotSpec, info container.InspectResponse) *container.Config {
	return &container.Config{
		Entrypoint: []string{guestPath, "init"},
		User:       "0",
		WorkingDir: info.Config.WorkingDir,
		Labels: b.labels(kindImage, map[string]string{
			session.LabelSnapshot:    spec.SnapshotID,
			session.LabelSession:     spec.Sandbox.SessionID,
			session.LabelIncarnation: info.Config.Labels[session.LabelIncarnation],
			session.LabelOwner:       spec.Owner,
			session.LabelCall:        spec.CallID,
			labelImage:               info.Config.Labels[labelImage],
			labelGuest:               info.Config.Labels[labelGuest],
			labelExcluded:            joinPlaces(excluded(info)),
		}),
	}
}

// FindSnapshot implements activities.Backend. SizeBytes is that of the whole
// image, layers shared with others included.
func (b *Backend) FindSnapshot(ctx context.Context, snapshotID string) (activities.SnapshotImage, error) {
	found, err := b.inspectSnapshot(ctx, snapshotID)
	if err != nil {
		return activities.SnapshotImage{}, err
	}
	labels := imageLabels(found)
	created, err := time.Parse(time.RFC3339Nano, found.Created)
	if err != nil {
		created = createdOf(labels)
	}
	return activities.SnapshotImage{
		SnapshotID: snapshotID,
		ImageID:    found.ID,
		BaseImage:  labels[labelImage],
		SizeBytes:  found.Size,
		Excluded:   splitPlaces(labels[labelExcluded]),
		CreatedAt:  created.UTC(),
	}, nil
}

// inspectSnapshot gives a snapshot's image by its tag. One that was deleted while
// a container used it has none any more.
func (b *Backend) inspectSnapshot(ctx context.Context, snapshotID string) (image.InspectResponse, error) {
	if !snapshotPattern.MatchString(snapshotID) {
		return image.InspectResponse{}, session.NoSnapshot(snapshotID)
	}
	found, ok, err := b.inspectImage(ctx, snapshotRef(snapshotID))
	if err != nil {
		return found, err
	}
	labels := imageLabels(found)
	if !ok || !b.isOurs(labels, kindImage) || labels[session.LabelSnapshot] != snapshotID {
		return image.InspectResponse{}, session.Errorf(session.NotFound, "the image of snapshot %q is not on this host; take a new snapshot", snapshotID)
	}
	return found, nil
}

// RemoveSnapshot implements activities.Backend. The name goes at once; an image
// that a container uses loses its files with the last of them (RemoveSession).
// Images derived from the snapshot for a newer guest hold its files too.
func (b *Backend) RemoveSnapshot(ctx context.Context, snapshotID string) error {
	if !snapshotPattern.MatchString(snapshotID) {
		return nil
	}
	for _, kind := range []string{kindDerived, kindImage} { // children first
		filter := b.ours(session.LabelSnapshot, snapshotID, session.LabelKind, kind)
		found, err := b.api.ImageList(ctx, image.ListOptions{Filters: filter})
		if err != nil {
			return engineErr("list images", err)
		}
		for _, img := range found {
			if err := b.untagAndRemove(ctx, img); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Backend) untagAndRemove(ctx context.Context, img image.Summary) error {
	for _, tag := range img.RepoTags {
		if tag == noTag {
			continue
		}
		// Force: a tag may go while a container uses the image.
		_, err := b.api.ImageRemove(ctx, tag, image.RemoveOptions{Force: true})
		if err != nil && !errdefs.IsNotFound(err) {
			return engineErr("remove image "+tag, err)
		}
	}
	b.removeImage(ctx, img.ID)
	b.removeImage(ctx, b.deletedSnapshot(ctx, img.ParentID)) // the last tag may have taken the image with it
	return nil
}

// noTag is what older engines list for an image without one.
const noTag = "<none>:<none>"

// removeImage removes an image that nothing uses, and then those below it that
// were kept for it alone: a snapshot that was deleted while another, taken of a
// sandbox restored from it, stood on it. In use, or gone, is no fault. Other
// parents without a name stay: they may be the operator's.
func (b *Backend) removeImage(ctx context.Context, id string) {
	for id != "" {
		found, ok, err := b.inspectImage(ctx, id)
		if err != nil || !ok {
			return
		}
		_, err = b.api.ImageRemove(ctx, id, image.RemoveOptions{})
		switch {
		case errdefs.IsConflict(err):
			return
		case err != nil && !errdefs.IsNotFound(err):
			b.log.WarnContext(ctx, "image not removed", "image", id, "error", err)
			return
		}
		id = b.deletedSnapshot(ctx, found.Parent) //nolint:staticcheck // empty where an engine knows none; there nothing stands in the way of a removal
	}
}

// deletedSnapshot gives the ID back if it is the image of a snapshot that was
// deleted, or one derived of it: nothing names it any more.
func (b *Backend) deletedSnapshot(ctx context.Context, id string) string {
	if id == "" {
		return ""
	}
	found, ok, err := b.inspectImage(ctx, id)
	if err != nil || !ok || len(found.RepoTags) > 0 {
		return ""
	}
	labels := imageLabels(found)
	if labels[session.LabelSnapshot] == "" || !b.isOurs(labels, kindImage) && !b.isOurs(labels, kindDerived) {
		return ""
	}
	return id
}
