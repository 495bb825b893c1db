package fake

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

type snapshotState struct {
	image   activities.SnapshotImage
	session string
	deleted bool // still used
}

// TakeSnapshot implements activities.Backend.
func (b *Backend) TakeSnapshot(ctx context.Context, spec activities.SnapshotSpec) (activities.SnapshotImage, error) {
	defer b.mu.Unlock()
	if err := b.enter(ctx, "TakeSnapshot"); err != nil {
		return activities.SnapshotImage{}, err
	}
	if snap := b.snapshots[spec.SnapshotID]; snap != nil && !snap.deleted {
		return snap.image, nil
	}
	s := b.find(spec.Sandbox)
	if s == nil {
		return activities.SnapshotImage{}, activities.ErrSandboxGone
	}
	dir := b.snapshotDir(spec.SnapshotID)
	if err := os.RemoveAll(dir); err != nil { // of a copy that failed
		return activities.SnapshotImage{}, err
	}
	if err := copyTree(s.box.WorkingDir, dir); err != nil {
		return activities.SnapshotImage{}, err
	}
	snap := &snapshotState{session: spec.Sandbox.SessionID, image: activities.SnapshotImage{
		SnapshotID: spec.SnapshotID, ImageID: "image-" + spec.SnapshotID, BaseImage: s.box.Image, SizeBytes: 1 << 20,
		Excluded: []string{"/"}, CreatedAt: time.Now().UTC(), // all but the working directory
	}}
	b.snapshots[spec.SnapshotID] = snap
	return snap.image, nil
}

// FindSnapshot implements activities.Backend.
func (b *Backend) FindSnapshot(ctx context.Context, snapshotID string) (activities.SnapshotImage, error) {
	defer b.mu.Unlock()
	if err := b.enter(ctx, "FindSnapshot"); err != nil {
		return activities.SnapshotImage{}, err
	}
	snap := b.snapshots[snapshotID]
	if snap == nil || snap.deleted {
		return activities.SnapshotImage{}, session.NoSnapshot(snapshotID)
	}
	return snap.image, nil
}

// RemoveSnapshot implements activities.Backend.
func (b *Backend) RemoveSnapshot(ctx context.Context, snapshotID string) error {
	defer b.mu.Unlock()
	if err := b.enter(ctx, "RemoveSnapshot"); err != nil {
		return err
	}
	if snap := b.snapshots[snapshotID]; snap != nil {
		snap.deleted = true
	}
	b.dropDeleted()
	return nil
}

// dropDeleted removes deleted snapshots that no container is made of any more.
func (b *Backend) dropDeleted() {
	used := b.used()
	for id, snap := range b.snapshots {
		if snap.deleted && !used[id] {
			_ = os.RemoveAll(b.snapshotDir(id))
			delete(b.snapshots, id)
		}
	}
}

// used tells which snapshots a container is made of.
func (b *Backend) used() map[string]bool {
	used := map[string]bool{}
	for _, s := range b.sessions {
		if s.exists {
			used[s.from] = true
		}
	}
	return used
}

func (b *Backend) snapshotDir(id string) string { return filepath.Join(b.dir, id) }

// copyTree copies directories, regular files and links with their modes; what
// else there may be is left out.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			if err := os.MkdirAll(target, 0o700); err != nil {
				return err
			}
			return os.Chmod(target, info.Mode().Perm()|0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target) //nolint:gosec // a test's own files
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path) //nolint:gosec // a test's own file
			if err != nil {
				return err
			}
			if err := os.WriteFile(target, data, 0o600); err != nil { //nolint:gosec // a test's own files
				return err
			}
			return os.Chmod(target, info.Mode().Perm())
		}
		return nil
	})
}
