//go:build linux

package files

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// append adds the content with one write(2) at the end, wherever that is by
// then, so that it does not mix with what a command appends. Size and SHA256
// are of the whole file after it; SHA256 is empty over maxHash, and for a file
// that the user may write but not read.
func (p *place) append(req guest.WriteFileRequest, was *unix.Stat_t) (guest.WriteResult, error) {
	flags := unix.O_WRONLY | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY
	if was == nil {
		flags |= unix.O_CREAT | unix.O_EXCL
	}
	fd, err := ignoringEINTR(func() (int, error) { return unix.Openat(p.dir, p.name, flags, 0o600) })
	if errors.Is(err, unix.EEXIST) {
		return p.write(req) // made by something else in this moment
	}
	if err != nil {
		return guest.WriteResult{}, err
	}
	f := os.NewFile(uintptr(fd), p.path)
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return guest.WriteResult{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return guest.WriteResult{}, notRegular(p.path, st.Mode)
	}
	if err := appendTo(f, req, was, st.Size); err != nil {
		if was == nil {
			_ = unix.Unlinkat(p.dir, p.name, 0)
		}
		return guest.WriteResult{}, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return guest.WriteResult{}, err
	}
	res := guest.WriteResult{Size: st.Size, Created: was == nil}
	if sum, err := p.hash(&st); err == nil {
		res.SHA256 = sum
	}
	return res, nil
}

// appendTo sets the mode first: a refusal of that leaves nothing changed.
func appendTo(f *os.File, req guest.WriteFileRequest, was *unix.Stat_t, size int64) error {
	mode := req.Mode
	if mode == 0 && was == nil {
		mode = defaultMode
	}
	if mode != 0 {
		if err := f.Chmod(os.FileMode(mode)); err != nil {
			return err
		}
	}
	if len(req.Content) == 0 {
		return nil
	}
	n, err := ignoringEINTR(func() (int, error) { return unix.Write(int(f.Fd()), req.Content) })
	if err == nil && n == len(req.Content) {
		return nil
	}
	if err == nil {
		err = unix.ENOSPC // the disk is full: what the kernel says to the next write
	}
	if mode != 0 && was != nil {
		_ = f.Chmod(os.FileMode(was.Mode & 0o777))
	}
	// Take a part back, unless something else was appended behind it.
	if end, seekErr := f.Seek(0, io.SeekEnd); seekErr == nil && n > 0 && end == size+int64(n) {
		return errors.Join(err, f.Truncate(size))
	}
	return err
}
