// Package blobstore keeps contents by their SHA-256: a directory of files that
// are named by it. What does not fit into Temporal's histories goes through it,
// by digest (docs/adr/013). Several processes may use one directory, also over a
// network file system.
//
// Put writes, Open reads and verifies, Prune removes what nobody has put for a
// while. Package activities declares what it needs of a store; cmd alone makes
// one. A content in it is private: the directory is 0700, files are 0600.
package blobstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Retention is how long a content is kept after it was last put: a copy, and
// its repeat after a fault, are over long before.
const Retention = 24 * time.Hour

// tempPrefix begins the names of files that are being written.
const tempPrefix = "put-"

var digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// ErrDamaged is wrapped when a content is not what its name says.
var ErrDamaged = errors.New("damaged content")

// Store is a directory of contents. Safe for concurrent use.
type Store struct{ dir string }

// Open opens the store in dir, an absolute path, and makes it if it is missing.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("blob directory: make it, or give another --blob-dir: %w", err)
	}
	return &Store{dir: dir}, nil
}

// Dir is the directory.
func (s *Store) Dir() string { return s.dir }

var buffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// Put keeps what r gives, to its end, and tells its digest and size. A content
// that is there already is replaced by itself, which makes it young, and whole
// if it was damaged. On an error nothing is kept.
func (s *Store) Put(r io.Reader) (digest string, size int64, err error) {
	f, err := os.CreateTemp(s.dir, tempPrefix+"*") // 0600
	if err != nil {
		return "", 0, fmt.Errorf("blob directory: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	buf := buffers.Get().(*[128 << 10]byte)
	defer buffers.Put(buf)
	sum := sha256.New()
	size, err = io.CopyBuffer(onlyWriter{io.MultiWriter(f, sum)}, onlyReader{r}, buf[:])
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", 0, err
	}
	digest = hex.EncodeToString(sum.Sum(nil))
	if err := os.Rename(f.Name(), s.path(digest)); err != nil {
		return "", 0, fmt.Errorf("blob directory: %w", err)
	}
	return digest, size, nil
}

// What would have io.Copy go past its buffer is hidden.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

func (s *Store) path(digest string) string { return filepath.Join(s.dir, digest) }

// Open gives a content, which the caller closes. Reading ends with ErrDamaged
// instead of io.EOF where it is not what its digest says. fs.ErrNotExist when it
// is not there.
func (s *Store) Open(digest string) (io.ReadCloser, error) {
	if !digestPattern.MatchString(digest) {
		return nil, fmt.Errorf("%.80q is no digest: %w", digest, fs.ErrNotExist)
	}
	f, err := os.Open(s.path(digest))
	if err != nil {
		return nil, err
	}
	return &verified{f: f, sum: sha256.New(), digest: digest}, nil
}

type verified struct {
	f      *os.File
	sum    hash.Hash
	digest string
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.f.Read(p)
	v.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(v.sum.Sum(nil)) != v.digest {
		return n, fmt.Errorf("%w: %s; remove that file, then copy again", ErrDamaged, v.f.Name())
	}
	return n, err
}

func (v *verified) Close() error { return v.f.Close() }

// Prune removes contents that were put longer ago than that, and what was left
// half written.
func (s *Store) Prune(olderThan time.Duration) error {
	before := time.Now().Add(-olderThan)
	list, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("blob directory: %w", err)
	}
	var errs []error
	for _, e := range list {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
			continue // gone meanwhile, or not ours to remove
		}
		if digestPattern.MatchString(e.Name()) || strings.HasPrefix(e.Name(), tempPrefix) {
			if err := os.Remove(s.path(e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
