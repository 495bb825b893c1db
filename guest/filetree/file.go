package filetree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// file makes a file in one step, in the place of a file or link that is there.
func (a *applier) file(in *os.Root, name string, e Entry) (err error) {
	if a.opts.KeepSame && same(in, name, e) {
		a.res.Unchanged++
		a.opts.Progress(0, e.Size)
		return a.attributes(in, name, e)
	}
	r, err := a.src.Open(e)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	temp := tempName()
	f, err := in.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = in.Remove(temp)
		}
	}()
	err = a.fill(f, r, e)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	when := time.Unix(0, e.MTime)
	if err := in.Chtimes(temp, when, when); err != nil {
		return err
	}
	return replace(in, temp, name)
}

// attributes puts those of a file right whose content is.
func (a *applier) attributes(in *os.Root, name string, e Entry) error {
	if err := in.Chmod(name, fs.FileMode(e.Mode)); err != nil {
		return err
	}
	when := time.Unix(0, e.MTime)
	return in.Chtimes(name, when, when)
}

var (
	buffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}
	zeros   [128 << 10]byte
)

// fill writes a file's content, and no zeros where a whole buffer has nothing
// else. What has another digest than it should is an error.
func (a *applier) fill(f *os.File, r io.Reader, e Entry) error {
	buf := buffers.Get().(*[128 << 10]byte)
	defer buffers.Put(buf)
	hash := sha256.New()
	var size int64
	for ended := false; !ended; {
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		n, err := readFull(r, buf[:])
		if ended = errors.Is(err, io.EOF); err != nil && !ended {
			return err
		}
		if size += int64(n); size > e.Size {
			break // it can only be wrong
		}
		hash.Write(buf[:n])
		if err := write(f, buf[:n]); err != nil {
			return err
		}
		a.opts.Progress(0, int64(n))
	}
	if got := hex.EncodeToString(hash.Sum(nil)); size != e.Size || got != e.SHA256 {
		return fmt.Errorf("the content of %.200q arrived damaged: %d bytes with sha256 %s, not %d with %s", e.Path, size, got, e.Size, e.SHA256)
	}
	if err := f.Truncate(size); err != nil { // where it ends with a hole
		return err
	}
	return f.Chmod(fs.FileMode(e.Mode))
}

// readFull is io.ReadFull, but gives errors as they are.
func readFull(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = r.Read(buf[n:])
		n += more
	}
	return n, err
}

func write(f *os.File, b []byte) error {
	if len(b) == len(zeros) && string(b) == string(zeros[:]) {
		_, err := f.Seek(int64(len(b)), io.SeekCurrent)
		return err
	}
	_, err := f.Write(b)
	return err
}

// same tells whether a regular file is there that has the entry's content.
func same(in *os.Root, name string, e Entry) bool {
	info, err := in.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != e.Size {
		return false
	}
	f, err := in.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	buf := buffers.Get().(*[128 << 10]byte)
	defer buffers.Put(buf)
	hash := sha256.New()
	if _, err := io.CopyBuffer(hash, onlyReader{f}, buf[:]); err != nil {
		return false
	}
	return hex.EncodeToString(hash.Sum(nil)) == e.SHA256
}

// onlyReader hides what would have io.Copy go past its buffer.
type onlyReader struct{ io.Reader }
