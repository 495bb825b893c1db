package filetree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// target is where a tree goes.
type target struct {
	path string // of the tree's root, absolute
	// merge says that the root is a folder that is there and stays as it is: the
	// tree's content goes into it.
	merge bool
}

// findTarget reads a destination as cp does: see Apply.
func findTarget(dest string, name Text, root Type) (target, error) {
	slash := strings.HasSuffix(dest, "/")
	info, err := os.Stat(dest)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return target{}, err
	}
	there := err == nil
	isDir := there && info.IsDir()
	switch {
	case isDir && name != "", !there && slash && root != Dir && name != "":
		if err := os.MkdirAll(dest, 0o755); err != nil { //nolint:gosec // as mkdir -p makes them
			return target{}, err
		}
		real, err := filepath.EvalSymlinks(dest)
		return target{path: filepath.Join(real, string(name))}, err
	case isDir && root == Dir:
		real, err := filepath.EvalSymlinks(dest)
		return target{path: real, merge: true}, err
	case there && (root == Dir || slash):
		return target{}, &fs.PathError{Op: "open", Path: dest, Err: syscall.ENOTDIR}
	case isDir:
		return target{}, fmt.Errorf("%w: a file without a name", ErrManifest)
	}
	path := filepath.Clean(dest)
	if there {
		if path, err = filepath.EvalSymlinks(path); err != nil { // whoever named a link means what it leads to
			return target{}, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as above
		return target{}, err
	}
	return target{path: path}, nil
}
