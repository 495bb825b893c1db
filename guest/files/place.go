//go:build linux

package files

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// tempPrefix begins the name of every temporary file.
const tempPrefix = ".mcp-sandbox-"

// place is where a file is, or will be: a directory, held open so that nobody
// can swap it between two steps, and a name in it.
type place struct {
	path string // for messages: the target, links at its end followed
	dir  int    // O_PATH descriptor of the directory
	name string
	made []string // directories that were made for it, the outermost first
}

// openPlace follows the links at the end of path and opens the directory of the
// target. With parents, missing directories are made (0755). The caller closes
// the place, and calls undo when it did not use it.
func openPlace(path string, parents bool) (*place, error) {
	if strings.HasSuffix(path, "/") {
		return nil, guest.Errorf(guest.CodeInvalid, "%s ends with a slash, which names a directory; name a file", path)
	}
	target, err := follow(path)
	if err != nil {
		return nil, err
	}
	dir, name := split(target)
	if name == "" || name == "." || name == ".." {
		return nil, notRegular(path, unix.S_IFDIR)
	}
	p := &place{path: target, name: name}
	if parents {
		if p.made, err = makeDirs(dir); err != nil {
			return nil, err
		}
	}
	p.dir, err = ignoringEINTR(func() (int, error) {
		return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		p.undo()
		return nil, err
	}
	return p, nil
}

func (p *place) close() { _ = unix.Close(p.dir) }

// undo removes the directories that were made and are still empty.
func (p *place) undo() { removeDirs(p.made) }

func removeDirs(made []string) {
	for _, d := range slices.Backward(made) {
		_ = unix.Rmdir(d)
	}
}

// makeDirs makes dir and what is missing above it, with exactly 0755 whatever
// the umask, and gives what it made. On an error nothing is left.
func makeDirs(dir string) (made []string, err error) {
	var missing []string
	for d := dir; ; d, _ = split(d) {
		var st unix.Stat_t
		err := unix.Stat(d, &st)
		if err == nil {
			break // where it is no directory, the open that follows says so
		}
		if !errors.Is(err, unix.ENOENT) || d == "/" {
			return nil, err
		}
		missing = append(missing, d)
	}
	for _, d := range slices.Backward(missing) {
		err := unix.Mkdir(d, 0o755)
		if errors.Is(err, unix.EEXIST) {
			continue // made meanwhile, or a dangling link, which the open that follows finds
		}
		if err == nil {
			made = append(made, d)
			err = unix.Chmod(d, 0o755)
		}
		if err != nil {
			removeDirs(made)
			return nil, err
		}
	}
	return made, nil
}

// stat gives what is at the place, nil when nothing is.
func (p *place) stat() (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(p.dir, p.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &st, nil
}

// writable checks that cur is a regular file that the caller may write to: a
// rename would replace a read-only file as well, which nobody expects.
func (p *place) writable(cur *unix.Stat_t) error {
	if cur == nil {
		return nil
	}
	if cur.Mode&unix.S_IFMT != unix.S_IFREG {
		return notRegular(p.path, cur.Mode)
	}
	err := unix.Faccessat(p.dir, p.name, unix.W_OK, unix.AT_EACCESS)
	if errors.Is(err, unix.EACCES) {
		return guest.Errorf(guest.CodePermission,
			"%s is read-only for the sandbox user (mode %04o, uid %d): make it writable with `chmod u+w` through run_command, or write another file",
			p.path, cur.Mode&0o777, cur.Uid)
	}
	return err
}

// replace puts content at the place in one step. was is what stat gave before;
// with guard, nothing is written (CodeConflict) if something else is there now.
// Owner is the caller; the group of was is kept where the caller may give it.
//
// There is no fall-back to writing in place: a reader would see a mix, and a
// full disk would leave half a file.
func (p *place) replace(content []byte, mode uint32, was *unix.Stat_t, guard bool) (err error) {
	temp := tempPrefix + randomHex()
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Openat(p.dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if errors.Is(err, unix.EACCES) {
		dir, _ := split(p.path)
		return guest.Errorf(guest.CodePermission,
			"%s: the sandbox user may not create files in %s, which replacing a file in one step needs; write to the working directory or /tmp, or change the file in place through run_command", p.path, dir)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(p.dir, temp, 0)
		}
	}()
	if err := fill(os.NewFile(uintptr(fd), temp), content, mode, was); err != nil {
		return err
	}
	if guard {
		if err := p.unchanged(was); err != nil {
			return err
		}
	}
	return unix.Renameat(p.dir, temp, p.dir, p.name)
}

// fill writes a temporary file and closes it.
func fill(f *os.File, content []byte, mode uint32, was *unix.Stat_t) error {
	_, err := f.Write(content)
	if err == nil && was != nil && int(was.Gid) != os.Getegid() {
		_ = f.Chown(-1, int(was.Gid)) // allowed for groups that the caller is in
	}
	if err == nil {
		err = f.Chmod(os.FileMode(mode))
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// unchanged narrows, without closing, the gap in which a command's own write
// would be lost: no system call compares and renames in one.
func (p *place) unchanged(was *unix.Stat_t) error {
	now, err := p.stat()
	if err != nil {
		return err
	}
	if !same(was, now) {
		return p.raced()
	}
	return nil
}

func (p *place) raced() *guest.Error {
	return guest.Errorf(guest.CodeConflict,
		"%s was changed by something else in this moment; nothing was written: read it again, then repeat the call", p.path)
}

func same(a, b *unix.Stat_t) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim
}

func randomHex() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}
