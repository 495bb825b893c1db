//go:build linux

package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// maxLinks is how many links are followed at the end of a path, as in Linux.
const maxLinks = 40

// absolute gives the path to hand to the kernel. It is not cleaned: after a
// link, ".." is the parent of the link's target, as it is in a shell.
func absolute(home, path string) (string, error) {
	switch {
	case path == "":
		return "", guest.Errorf(guest.CodeInvalid, "path is empty; name a file")
	case strings.ContainsRune(path, 0):
		return "", guest.Errorf(guest.CodeInvalid, "path %q has a NUL byte; no file name can", path)
	case path == "~" || strings.HasPrefix(path, "~/"):
		// Taken literally it would make a directory named "~".
		return "", guest.Errorf(guest.CodeInvalid,
			"%q: ~ is not expanded; use an absolute path, or one relative to the working directory %s", path, home)
	case filepath.IsAbs(path):
		return path, nil
	case !filepath.IsAbs(home):
		return "", guest.Errorf(guest.CodeInvalid, "path %q is relative and there is no working directory; use an absolute path", path)
	default:
		return strings.TrimRight(home, "/") + "/" + path, nil
	}
}

// split cuts a path before its last name, without cleaning either part.
func split(path string) (dir, name string) {
	trimmed := strings.TrimRight(path, "/")
	i := strings.LastIndexByte(trimmed, '/')
	if i < 0 {
		return "/", trimmed
	}
	dir = strings.TrimRight(trimmed[:i], "/")
	if dir == "" {
		dir = "/"
	}
	return dir, trimmed[i+1:]
}

// resolved is the path as results report it: links in it resolved. It is for
// display only, so it may be a moment old.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// follow gives the path that the links at the end of path lead to, whether it
// exists or not: like an editor, a write goes through a link and leaves it, and
// a dangling link's target is created.
func follow(path string) (string, error) {
	for range maxLinks {
		link, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // no link, or nothing there: the caller's next call tells
		}
		if !filepath.IsAbs(link) {
			dir, _ := split(path)
			link = strings.TrimRight(dir, "/") + "/" + link
		}
		path = link
	}
	return "", unix.ELOOP
}

// openRegular opens a regular file for reading. It does not wait for a FIFO's
// writer and never becomes the terminal of a session. The caller closes it.
func openRegular(path string) (*os.File, *unix.Stat_t, error) {
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	})
	if err != nil {
		// A socket cannot be opened: say what it is instead of ENXIO.
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
			return nil, nil, notRegular(path, st.Mode)
		}
		return nil, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Close(fd)
		return nil, nil, notRegular(path, st.Mode)
	}
	return os.NewFile(uintptr(fd), path), &st, nil
}

// ignoringEINTR repeats a call that a signal interrupted; on some file systems
// (FUSE) even open is.
func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// bytesOf words a size for messages.
func bytesOf(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
