package supervisor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
)

const (
	// stagingAge is how long contents wait for the copy that they are for.
	stagingAge = 6 * time.Hour
	// partPrefix begins the names of contents that are on their way.
	partPrefix = "part-"
)

// staging keeps the contents of copies into the sandbox until they are applied:
// files named by their digest, in the state directory, which the sandbox user
// cannot enter.
type staging struct {
	dir string
	now func() time.Time
	// turn holds a token: one copy at a time is applied, and what it needs stays.
	turn chan struct{}
}

func newStaging(dir string, now func() time.Time) (*staging, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make staging directory: %w", err)
	}
	s := &staging{dir: dir, now: now, turn: make(chan struct{}, 1)}
	s.sweep(func(name string, _ time.Time) bool { return strings.HasPrefix(name, partPrefix) })
	s.sweep(s.stale)
	return s, nil
}

// sweep removes what gone says.
func (s *staging) sweep(gone func(name string, changed time.Time) bool) {
	list, _ := os.ReadDir(s.dir)
	for _, e := range list {
		if info, err := e.Info(); err == nil && gone(e.Name(), info.ModTime()) {
			_ = os.Remove(s.path(e.Name()))
		}
	}
}

func (s *staging) stale(_ string, changed time.Time) bool {
	return changed.Before(s.now().Add(-stagingAge))
}

func (s *staging) path(name string) string { return filepath.Join(s.dir, name) }

// take waits for its turn to apply a copy.
func (s *staging) take(ctx context.Context) (release func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// missing gives the digests that are not there.
func (s *staging) missing(digests []string) (list []string) {
	for _, d := range digests {
		if !filetree.ValidDigest(d) || !exists(s.path(d)) {
			list = append(list, d)
		}
	}
	return list
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// receive takes contents from a stream until its end. Each that is whole stays.
func (s *staging) receive(body io.Reader) (res guest.StageResult, err error) {
	s.sweep(s.stale)
	frames := filetree.NewFrameReader(body)
	for {
		kind, payload, err := frames.Next()
		if err != nil {
			return res, err
		}
		if kind == filetree.FrameDone {
			return res, nil
		}
		var name filetree.BlobName
		if kind != filetree.FrameBlob || json.Unmarshal(payload, &name) != nil || !filetree.ValidDigest(name.SHA256) {
			return res, guest.Errorf(guest.CodeInvalid, "a stream of contents with a frame %q that does not belong there", byte(kind))
		}
		if err := s.keep(name, frames.Content()); err != nil {
			return res, err
		}
		res.Blobs++
		res.Bytes += name.Size
	}
}

// keep writes one content.
func (s *staging) keep(name filetree.BlobName, r io.Reader) (err error) {
	part := s.path(partPrefix + rand.Text())
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return s.full(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	size, digest, err := s.write(f, r, name.Size)
	if closed := f.Close(); err == nil {
		err = closed
	}
	switch {
	case err != nil:
		return s.full(err)
	case size != name.Size || digest != name.SHA256:
		return guest.Errorf(guest.CodeInvalid, "content %s arrived damaged", name.SHA256)
	}
	return s.full(os.Rename(part, s.path(name.SHA256)))
}

func (s *staging) write(f *os.File, r io.Reader, most int64) (size int64, digest string, err error) {
	buf := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buf)
	hash := sha256.New()
	for {
		n, err := r.Read(buf[:])
		if size += int64(n); size > most {
			return size, "", nil // damaged
		}
		hash.Write(buf[:n])
		var werr error
		if n > 0 {
			onDisk(func() { _, werr = f.Write(buf[:n]) })
		}
		switch {
		case werr != nil:
			return size, "", werr
		case errors.Is(err, io.EOF):
			return size, hex.EncodeToString(hash.Sum(nil)), nil
		case err != nil:
			return size, "", err
		}
	}
}

// full makes an answer of a full disk, and room: nobody will apply this copy.
func (s *staging) full(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	s.sweep(func(string, time.Time) bool { return true })
	return guest.Errorf(guest.CodeExhausted, "the disk of the sandbox's host is full: nothing was copied; free some space there, then copy again")
}

// manifest opens a staged manifest. The caller closes it.
func (s *staging) manifest(digest string) (*filetree.ManifestReader, io.Closer, error) {
	f, err := os.Open(s.path(digest))
	if err != nil {
		return nil, nil, err
	}
	m, err := filetree.NewManifestReader(f)
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return m, f, nil
}

// each calls do for every entry of a staged manifest.
func (s *staging) each(digest string, do func(filetree.Entry) error) error {
	m, f, err := s.manifest(digest)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for {
		e, err := m.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(e)
		}
		if err != nil {
			return err
		}
	}
}

// complete tells whether a manifest and all its contents are there, and is one.
func (s *staging) complete(digest string) *guest.Error {
	if len(s.missing([]string{digest})) > 0 {
		return guest.Errorf(guest.CodeUnstaged, "the manifest %.64s is not staged", digest)
	}
	err := s.each(digest, func(e filetree.Entry) error {
		if e.Type == filetree.File && !exists(s.path(e.SHA256)) {
			return guest.Errorf(guest.CodeUnstaged, "content %s is not staged", e.SHA256)
		}
		return nil
	})
	if gerr, ok := errors.AsType[*guest.Error](err); ok {
		return gerr
	}
	if err != nil {
		return guest.Errorf(guest.CodeInvalid, "%v", err)
	}
	return nil
}

// drop removes a manifest and its contents.
func (s *staging) drop(digest string) {
	_ = s.each(digest, func(e filetree.Entry) error {
		if e.Type == filetree.File {
			_ = os.Remove(s.path(e.SHA256))
		}
		return nil
	})
	_ = os.Remove(s.path(digest))
}
