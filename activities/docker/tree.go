package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/containerd/errdefs"
)

// tree looks into the files of a container that need not run.
type tree struct {
	b  *Backend
	id string
}

// maxText bounds /etc/passwd and /etc/group.
const maxText = 1 << 20

// entry reads the header of a file or directory, links followed. ok is false
// when there is none.
func (t tree) entry(ctx context.Context, name string) (header *tar.Header, ok bool, err error) {
	header, _, ok, err = t.read(ctx, name, 0)
	return header, ok, err
}

// text reads a small regular file, links followed; nil when there is none.
func (t tree) text(ctx context.Context, name string) ([]byte, error) {
	header, data, ok, err := t.read(ctx, name, maxText)
	if ok && header.Typeflag != tar.TypeReg {
		return nil, nil
	}
	return data, err
}

// read gets the start of the archive of a path. The engine resolves links in the
// container's own tree, and tells where a last link leads.
func (t tree) read(ctx context.Context, name string, limit int64) (header *tar.Header, data []byte, ok bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the archive of a large directory after its first entry
	for range 8 {
		body, stat, err := t.b.api.CopyFromContainer(ctx, t.id, name)
		if errdefs.IsNotFound(err) {
			return nil, nil, false, nil
		}
		if err != nil {
			return nil, nil, false, engineErr("read "+name+" of an image", err)
		}
		if stat.LinkTarget != "" && path.Clean(stat.LinkTarget) != path.Clean(name) {
			name = stat.LinkTarget
			_ = body.Close()
			continue
		}
		defer func() { cancel(); _ = body.Close() }()
		archive := tar.NewReader(body)
		header, err := archive.Next()
		if err != nil {
			return nil, nil, false, engineErr("read "+name+" of an image", err)
		}
		if limit > 0 {
			data, err = io.ReadAll(io.LimitReader(archive, limit+1))
			if err != nil {
				return nil, nil, false, engineErr("read "+name+" of an image", err)
			}
			if int64(len(data)) > limit {
				return nil, nil, false, fmt.Errorf("%s of the image is over %d bytes", name, limit)
			}
		}
		return header, data, true, nil
	}
	return nil, nil, false, errors.New("too many links at " + name)
}

// executable tells whether a path is a program that everyone may run.
func (t tree) executable(ctx context.Context, name string) (bool, error) {
	header, ok, err := t.entry(ctx, name)
	return ok && header.Typeflag == tar.TypeReg && header.Mode&0o001 != 0, err
}

// directory gives a directory's owner; ok is false when there is none.
func (t tree) directory(ctx context.Context, name string) (uid int, ok bool, err error) {
	header, ok, err := t.entry(ctx, name)
	if err != nil || !ok || header.Typeflag != tar.TypeDir {
		return 0, false, err
	}
	return header.Uid, true, nil
}
