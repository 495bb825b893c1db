package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Options say how a data dir is opened.
type Options struct {
	// Exclusive takes the lock that a server holds. Without it a server may be
	// running on the same data dir.
	Exclusive bool
	// Purpose is shown to whoever finds the lock taken; default "a server".
	Purpose string
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Dir is an open data dir. Its methods may be used concurrently.
type Dir struct {
	path         string
	installation installation
	lock         *lock // nil unless exclusive
}

// Open opens the data dir at path and makes it (0700) and its identity if they
// are missing. It refuses a directory that others may enter, that someone else
// owns, or whose lock another server holds. The caller closes the Dir.
func Open(path string, opts Options) (*Dir, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Purpose == "" {
		opts.Purpose = "a server"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data dir %s: %w", path, err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data dir: make it, or give another --data-dir: %w", explain(err))
	}
	if err := checkDir(path); err != nil {
		return nil, err
	}
	d := &Dir{path: path}
	if opts.Exclusive {
		if d.lock, err = takeLock(path, opts.Purpose); err != nil {
			return nil, err
		}
	}
	if d.installation, err = openInstallation(d.Path(installationFile), opts.Now); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close gives the lock back. The second call does nothing.
func (d *Dir) Close() error {
	return d.lock.close()
}

// SetPurpose changes what the lock says about its holder, once it is known, such
// as "a server, listening on 127.0.0.1:8765".
func (d *Dir) SetPurpose(purpose string) error {
	if d.lock == nil {
		return errors.New("data dir: not opened exclusively")
	}
	return d.lock.describe(purpose)
}

// Path joins elem to the data dir's absolute path.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// InstallationID is "i_" and 26 characters of a-z2-7; labels carry it.
func (d *Dir) InstallationID() string { return d.installation.ID }

// HostID is "h_" and 26 characters of a-z2-7; it names the host's task queue.
func (d *Dir) HostID() string { return d.installation.HostID }

// Secret is 32 random bytes that never leave the installation.
func (d *Dir) Secret() []byte { return slices.Clone(d.installation.Secret) }

// checkDir refuses a data dir that is not the caller's alone: the token and the
// secret in it give everything away.
func checkDir(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("data dir: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("data dir %s is no directory; move it away, or give another --data-dir", path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("data dir %s belongs to uid %d, and this is uid %d; run as its owner, or give another --data-dir",
			path, st.Uid, os.Geteuid())
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("data dir %s has mode %#o, so that others can read the secrets in it; run: chmod 700 %s", path, perm, path)
	}
	return nil
}

// explain adds the remedy to an error of the file system that has one.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk or quota is full, free some space and try again: %w", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the file system is read-only, give another --data-dir: %w", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user may not write there: %w", err)
	}
	return err
}
