package docker

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	// guestDir holds the guest and its state, 0700 root.
	guestDir  = "/.sandbox"
	guestPath = guestDir + "/guest"
	stateDir  = guestDir + "/state"
	// homeDir is the home and default working directory; every derived image
	// has it, owned by the sandbox user.
	homeDir    = "/home/sandbox"
	sandboxUID = 1000
	// deriveTimeout bounds the making of a derived image.
	deriveTimeout = 2 * time.Minute
	// recipe is part of a derived image's name: raise it when what is put into
	// one changes.
	recipe = "1"
	// derivedName is the repository of derived images.
	derivedName = "mcp-sandbox/derived"
)

// derivedImage finds or makes base with the current guest in it. It is made once
// in this process, and by whoever is first among processes: the loser's image
// is removed.
func (b *Backend) derivedImage(ctx context.Context, base baseImage) (image.InspectResponse, error) {
	ref := b.derivedRef(base.image.ID)
	if found, ok, err := b.findDerived(ctx, ref, base); err != nil || ok {
		if ok {
			b.noteUse(ctx, found, ref)
		}
		return found, err
	}
	// The making goes on when one of those who wait for it gives up.
	result := b.derive.DoChan(ref, func() (any, error) {
		ctx, cancel := b.outlive(ctx, deriveTimeout)
		defer cancel()
		if found, ok, err := b.findDerived(ctx, ref, base); err != nil || ok {
			return found, err
		}
		return b.makeDerived(ctx, ref, base)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return image.InspectResponse{}, r.Err
		}
		return r.Val.(image.InspectResponse), nil
	case <-ctx.Done():
		return image.InspectResponse{}, ctx.Err()
	}
}

// derivedRef names the image derived from a base by this installation and guest.
func (b *Backend) derivedRef(baseID string) string {
	return derivedName + ":" + digest(32, b.opts.InstallationID, baseID, b.guest.version, recipe)
}

// findDerived looks a derived image up. The labels must agree: anybody may tag.
func (b *Backend) findDerived(ctx context.Context, ref string, base baseImage) (image.InspectResponse, bool, error) {
	found, ok, err := b.inspectImage(ctx, ref)
	if err != nil || !ok {
		return found, false, err
	}
	labels := imageLabels(found)
	ok = b.isOurs(labels, kindDerived) && labels[labelBase] == base.image.ID && labels[labelGuest] == b.guest.version
	return found, ok, nil
}

func (b *Backend) makeDerived(ctx context.Context, ref string, base baseImage) (image.InspectResponse, error) {
	started := time.Now()
	b.sweepBuilds(ctx)
	id, err := b.createBuild(ctx, base)
	if err != nil {
		return image.InspectResponse{}, err
	}
	defer b.discard(ctx, id)
	add, err := b.examine(ctx, tree{b, id}, base)
	if err != nil {
		return image.InspectResponse{}, err
	}
	body, err := add.archive(b.guest.binary)
	if err != nil {
		return image.InspectResponse{}, err
	}
	if err := b.api.CopyToContainer(ctx, id, "/", body, container.CopyToContainerOptions{}); err != nil {
		return image.InspectResponse{}, engineErr("put the guest into image "+base.reference, err)
	}
	found, err := b.commitDerived(ctx, id, ref, base, add.workingDir)
	if err == nil {
		b.log.InfoContext(ctx, "made derived image", "image", base.reference, "derived", ref, "took", time.Since(started))
		b.pruneDerived(ctx)
	}
	return found, err
}

// createBuild makes the container that a derived image is committed from. It is
// never started, and has no volume: a tmpfs in the place of each VOLUME keeps
// the engine from making one.
func (b *Backend) createBuild(ctx context.Context, base baseImage) (string, error) {
	host := &container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}}
	for _, volume := range declaredVolumes(base.image) {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeTmpfs, Target: volume})
	}
	created, err := b.api.ContainerCreate(ctx, &container.Config{
		Image:       base.image.ID,
		Entrypoint:  []string{guestPath, "init"},
		User:        "0",
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		Labels:      b.labels(kindBuild, nil),
	}, host, nil, nil, "")
	return created.ID, engineErr("create a container of image "+base.reference, err)
}

// commitDerived makes the image and names it, unless another process was first.
func (b *Backend) commitDerived(ctx context.Context, id, ref string, base baseImage, workingDir string) (image.InspectResponse, error) {
	committed, err := b.api.ContainerCommit(ctx, id, container.CommitOptions{
		Comment: "mcp-sandbox guest " + b.guest.version,
		Config: &container.Config{
			Entrypoint: []string{guestPath, "init"},
			User:       "0",
			WorkingDir: workingDir,
			Labels: b.labels(kindDerived, map[string]string{
				labelImage:            base.reference,
				labelBase:             base.image.ID,
				labelGuest:            b.guest.version,
				session.LabelSnapshot: base.snapshotID,
			}),
		},
	})
	if err != nil {
		return image.InspectResponse{}, engineErr("commit the derived image of "+base.reference, err)
	}
	if found, ok, err := b.findDerived(ctx, ref, base); err == nil && ok {
		b.removeImage(ctx, committed.ID)
		return found, nil
	}
	if err := b.api.ImageTag(ctx, committed.ID, ref); err != nil {
		b.removeImage(ctx, committed.ID)
		return image.InspectResponse{}, engineErr("tag the derived image of "+base.reference, err)
	}
	found, ok, err := b.inspectImage(ctx, ref)
	if err == nil && !ok {
		err = fmt.Errorf("%w: image %s is gone right after it was made", errEngine, ref)
	}
	return found, err
}

// examine decides what an image needs, and refuses one that cannot be a sandbox.
func (b *Backend) examine(ctx context.Context, files tree, base baseImage) (additions, error) {
	var add additions
	shell := false
	for _, name := range []string{"/bin/bash", "/bin/sh"} {
		found, err := files.executable(ctx, name)
		if err != nil {
			return add, err
		}
		shell = shell || found
	}
	if !shell {
		return add, session.Errorf(session.InvalidArgument, "image %q has neither /bin/sh nor /bin/bash, which commands need; use an image with a shell", base.reference)
	}
	if err := add.place(ctx, files); err != nil {
		return add, err
	}
	if err := add.accounts(ctx, files); err != nil {
		return add, err
	}
	add.workingDir = homeDir
	wanted := path.Clean("/" + base.image.Config.WorkingDir)
	for _, volume := range declaredVolumes(base.image) {
		if covers(volume, wanted) {
			wanted = "/"
		}
	}
	if uid, ok, err := files.directory(ctx, wanted); err != nil {
		return add, err
	} else if ok && uid == sandboxUID && wanted != "/" {
		add.workingDir = wanted
	}
	return add, nil
}

// discard removes a build container, also when ctx has ended.
func (b *Backend) discard(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	err := b.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		b.log.WarnContext(ctx, "build container not removed", "container", id, "error", err)
	}
}

// sweepBuilds removes build containers of processes that died.
func (b *Backend) sweepBuilds(ctx context.Context) {
	found, err := b.api.ContainerList(ctx, container.ListOptions{All: true, Filters: b.ours(session.LabelKind, kindBuild)})
	if err != nil {
		return // the next step meets the same fault and reports it
	}
	for _, c := range found {
		if time.Since(createdOf(c.Labels)) > 2*deriveTimeout {
			b.discard(ctx, c.ID)
		}
	}
}

// pruneDerived removes derived images that nobody asks for any more: those of
// other guests, and those of a base that lost its name to a newer one. One that
// a container uses, or an image is made of, the engine keeps; one that is asked
// for again after all is made again.
func (b *Backend) pruneDerived(ctx context.Context) {
	found, err := b.api.ImageList(ctx, image.ListOptions{Filters: b.ours(session.LabelKind, kindDerived)})
	if err != nil {
		return
	}
	for _, img := range found {
		base, ok, err := b.inspectImage(ctx, img.Labels[labelBase])
		nameless := err == nil && (!ok || len(base.RepoTags)+len(base.RepoDigests) == 0)
		if nameless || img.Labels[labelGuest] != b.guest.version {
			b.removeImage(ctx, img.ID)
		}
	}
}
