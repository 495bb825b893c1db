//go:build linux

package files

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// reason is what an agent is told about an errno.
type reason struct {
	code guest.Code
	text string
}

const (
	denied = "the sandbox user may not do that; look at owner and mode with `ls -ld` through run_command"
	full   = "no space is left; free some through run_command (`df -h`, `du -sh *`), then try again"
	busy   = "the sandbox is out of memory or open files; end some commands, then try again"
	odd    = "it does not behave like a file; use run_command for it"
)

var reasons = map[syscall.Errno]reason{
	unix.EACCES:       {guest.CodePermission, denied},
	unix.EPERM:        {guest.CodePermission, denied},
	unix.EROFS:        {guest.CodePermission, "its file system is read-only; choose a path in the working directory or in /tmp"},
	unix.ENOSPC:       {guest.CodeExhausted, full},
	unix.EDQUOT:       {guest.CodeExhausted, full},
	unix.EFBIG:        {guest.CodeExhausted, "the file would be larger than the limit; write to another file"},
	unix.ENOMEM:       {guest.CodeExhausted, busy},
	unix.EMFILE:       {guest.CodeExhausted, busy},
	unix.ENFILE:       {guest.CodeExhausted, busy},
	unix.ELOOP:        {guest.CodePrecondition, "its links go in a circle; look at them with `ls -l` through run_command"},
	unix.EISDIR:       {guest.CodePrecondition, "it is a directory; name a file in it"},
	unix.EEXIST:       {guest.CodePrecondition, "a part of the path exists and is no directory; look at it with `ls -l` through run_command"},
	unix.ENOTDIR:      {guest.CodePrecondition, "a part of the path is no directory; look at it with `ls -l` through run_command"},
	unix.EBUSY:        {guest.CodePrecondition, "it is a mount point and cannot be replaced; write to it through run_command"},
	unix.ETXTBSY:      {guest.CodePrecondition, "it is a program that is running; stop it, then try again"},
	unix.ENXIO:        {guest.CodePrecondition, odd},
	unix.ENODEV:       {guest.CodePrecondition, odd},
	unix.EIO:          {guest.CodePrecondition, odd},
	unix.EINVAL:       {guest.CodePrecondition, odd},
	unix.EAGAIN:       {guest.CodePrecondition, odd},
	unix.ENAMETOOLONG: {guest.CodeInvalid, "the path is too long; a name has at most 255 bytes, a path 4095"},
}

// explain makes the error for a system call on path that failed while doing
// something ("read", "write", ...). A *guest.Error passes as it is; an errno
// nobody expected is CodeInternal.
func explain(doing, path string, err error) error {
	if _, ok := errors.AsType[*guest.Error](err); ok {
		return err
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return guest.Errorf(guest.CodeInternal, "cannot %s %s: %v", doing, path, err)
	}
	if errno == unix.ENOENT || (errno == unix.ENOTDIR && doing == doRead) {
		return notFound(path)
	}
	why, ok := reasons[errno]
	if !ok {
		return guest.Errorf(guest.CodeInternal, "cannot %s %s: %v", doing, path, err)
	}
	return guest.Errorf(why.code, "cannot %s %s: %s", doing, path, why.text)
}

// What explain says was being done.
const (
	doRead  = "read"
	doWrite = "write"
	doEdit  = "edit"
)

// notRegular is the error for a path that is something else than a file.
func notRegular(path string, mode uint32) *guest.Error {
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return guest.Errorf(guest.CodePrecondition,
			"%s is a directory, not a regular file: list it with `ls -la` through run_command, then name a file in it", path)
	}
	return guest.Errorf(guest.CodePrecondition,
		"%s is %s, not a regular file: use it through run_command", path, kind(mode))
}

func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFCHR:
		return "a character device"
	case unix.S_IFBLK:
		return "a block device"
	case unix.S_IFLNK:
		return "a link"
	default:
		return fmt.Sprintf("of an unknown type (%#o)", mode&unix.S_IFMT)
	}
}
