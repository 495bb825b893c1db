//go:build linux

package files

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// defaultMode is a new file's mode, whatever the umask.
const defaultMode = 0o644

// Write replaces a file in one step, or appends to it with one write(2).
// Missing parents are made (0755). It goes through a link to its target, and
// creates the target of a dangling one. An existing file keeps its mode unless
// one is given, but for setuid, setgid and sticky bits, which are dropped; a
// file that the user may not write to is refused, though a rename could replace
// it. A file of another user that is writable becomes the caller's.
//
// On an error nothing is changed. Errors: CodeInvalid (path, mode,
// expected_sha256), CodeTooLarge (over guest.MaxInline), CodePermission,
// CodePrecondition (no regular file), CodeConflict, CodeExhausted (disk full).
func Write(home string, req guest.WriteFileRequest) (guest.WriteResult, error) {
	path, err := absolute(home, req.Path)
	if err != nil {
		return guest.WriteResult{}, err
	}
	if err := checkWrite(path, req); err != nil {
		return guest.WriteResult{}, err
	}
	p, err := openPlace(path, req.ExpectedSHA256 == "")
	if err != nil {
		if req.ExpectedSHA256 != "" && errors.Is(err, unix.ENOENT) {
			return guest.WriteResult{}, missingConflict(path)
		}
		return guest.WriteResult{}, explain(doWrite, path, err)
	}
	defer p.close()
	res, err := p.write(req)
	if err != nil {
		p.undo()
		return guest.WriteResult{}, explain(doWrite, path, err)
	}
	res.Path = resolved(p.path)
	return res, nil
}

func checkWrite(path string, req guest.WriteFileRequest) error {
	if len(req.Content) > guest.MaxInline {
		return guest.Errorf(guest.CodeTooLarge,
			"the content for %s has %d bytes; one call carries %d: write the first part, then add the others with append", path, len(req.Content), guest.MaxInline)
	}
	if req.Mode&^0o777 != 0 {
		return guest.Errorf(guest.CodeInvalid, "mode %04o is not a permission mode; use 0001 to 0777, without setuid, setgid and sticky bits", req.Mode)
	}
	sum := req.ExpectedSHA256
	if sum != "" && (len(sum) != 64 || strings.Trim(strings.ToLower(sum), "0123456789abcdef") != "") {
		return guest.Errorf(guest.CodeInvalid, "expected_sha256 %q is not 64 hexadecimal digits; take it from read_file, or leave it out", sum)
	}
	return nil
}

func (p *place) write(req guest.WriteFileRequest) (guest.WriteResult, error) {
	was, err := p.stat()
	if err != nil {
		return guest.WriteResult{}, err
	}
	if err := p.writable(was); err != nil {
		return guest.WriteResult{}, err
	}
	if err := p.expect(req.ExpectedSHA256, was); err != nil {
		return guest.WriteResult{}, err
	}
	if req.Append {
		return p.append(req, was)
	}
	mode := req.Mode
	switch {
	case mode != 0:
	case was != nil:
		mode = was.Mode & 0o777
	default:
		mode = defaultMode
	}
	if err := p.replace(req.Content, mode, was, req.ExpectedSHA256 != ""); err != nil {
		return guest.WriteResult{}, err
	}
	return guest.WriteResult{Size: int64(len(req.Content)), SHA256: hashOf(req.Content), Created: was == nil}, nil
}

// expect compares the current content with the hash that the caller knows; ""
// matches everything, even no file.
func (p *place) expect(sum string, was *unix.Stat_t) error {
	if sum == "" {
		return nil
	}
	if was == nil {
		return missingConflict(p.path)
	}
	if was.Size > maxHash {
		return guest.Errorf(guest.CodeTooLarge,
			"%s is larger than %s, so that its hash is not checked; leave out expected_sha256", p.path, bytesOf(maxHash))
	}
	now, err := p.hash(was)
	if err != nil {
		return err
	}
	if now != strings.ToLower(sum) {
		return guest.Errorf(guest.CodeConflict,
			"%s has changed: its sha256 is %s, not the expected %s; nothing was written: read it again, then repeat the change on what is there now", p.path, now, strings.ToLower(sum))
	}
	return nil
}

func missingConflict(path string) *guest.Error {
	return guest.Errorf(guest.CodeConflict,
		"%s does not exist, so it cannot match expected_sha256; nothing was written: leave out expected_sha256 to create it", path)
}

// hash gives the hash of the file at the place, which must be the one that st
// describes.
func (p *place) hash(st *unix.Stat_t) (string, error) {
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Openat(p.dir, p.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), p.path)
	defer func() { _ = f.Close() }()
	var opened unix.Stat_t
	if err := unix.Fstat(fd, &opened); err != nil {
		return "", err
	}
	if !same(st, &opened) {
		return "", p.unchanged(st)
	}
	src, err := newSource(f, st)
	if err != nil {
		return "", err
	}
	return src.sha256()
}
