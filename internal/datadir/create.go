package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// createOnce makes the file at path (0600) with all of data, or nothing. If the
// file is there already it stays as it is, and that is no error: whoever was
// first has won. A link, unlike a rename, cannot replace a file.
func createOnce(path string, data []byte) error {
	tmp, err := writeTemp(path, data)
	if tmp != "" {
		defer func() { _ = os.Remove(tmp) }()
	}
	if err != nil {
		return fmt.Errorf("data dir: make %s: %w", path, explain(err))
	}
	if err := os.Link(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("data dir: make %s: %w", path, explain(err))
	}
	return syncDir(filepath.Dir(path))
}

// writeTemp writes data to a file beside path and gives its name, also if it
// could only be written in part.
func writeTemp(path string, data []byte) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return f.Name(), err
	}
	return f.Name(), f.Sync()
}

// syncDir makes the new name in dir survive a power loss.
func syncDir(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // the path is ours
	if err != nil {
		return fmt.Errorf("data dir: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("data dir: %w", err)
	}
	return nil
}
