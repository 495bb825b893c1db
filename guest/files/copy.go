//go:build linux

package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
)

// copyIn makes the tree that frames after the request describe: the header, the
// entries, the content of each file after its entry, FrameDone. An error tells
// how far it came.
func copyIn(home string, req guest.CopyInRequest, in io.Reader) (guest.CopyInResult, error) {
	dest, err := copyPath(home, req.Path)
	if err != nil {
		return guest.CopyInResult{}, err
	}
	frames := &framed{r: filetree.NewFrameReader(in)}
	var h filetree.Header
	if err := frames.value(filetree.FrameHeader, &h); err != nil {
		return guest.CopyInResult{}, err
	}
	res, err := filetree.Apply(context.Background(), dest, h, frames, filetree.ApplyOptions{})
	if err != nil {
		return guest.CopyInResult{}, partial(res, copyError(doWrite, dest, err))
	}
	return guest.CopyInResult{Path: res.Path, Counts: res.Counts}, nil
}

// copyPath is absolute, with the working directory for no path at all.
func copyPath(home, path string) (string, error) {
	if path == "" {
		path = "."
	}
	return absolute(home, path)
}

// framed is the Contents of a stream of frames.
type framed struct{ r *filetree.FrameReader }

func (f *framed) value(want filetree.Kind, v any) error {
	kind, payload, err := f.r.Next()
	switch {
	case err != nil:
		return err
	case kind == filetree.FrameDone && want == filetree.FrameEntry:
		return io.EOF
	case kind != want:
		return fmt.Errorf("%w: frame %q out of place", filetree.ErrFrame, byte(kind))
	}
	return json.Unmarshal(payload, v)
}

// Next implements filetree.Contents.
func (f *framed) Next() (e filetree.Entry, err error) {
	err = f.value(filetree.FrameEntry, &e)
	return e, err
}

// Open implements filetree.Contents. What is left of a content that was not
// read to its end is an error of the next call.
func (f *framed) Open(filetree.Entry) (io.ReadCloser, error) { return io.NopCloser(f.r.Content()), nil }

// partial adds to an error what was done before it.
func partial(res filetree.Result, err error) error {
	e, ok := errors.AsType[*guest.Error](err)
	if done := res.Files + res.Dirs + res.Links; ok && done > 0 {
		return guest.Errorf(e.Code, "%s; before that %d files, %d folders and %d links were copied and stay", e.Message, res.Files, res.Dirs, res.Links)
	}
	return err
}

// copyError words an error of package filetree for an agent.
func copyError(doing, path string, err error) error {
	if _, ok := errors.AsType[*guest.Error](err); ok {
		return err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		path, err = e.Path, e.Err
		if errno, ok := errors.AsType[syscall.Errno](err); !ok || reasons[errno].code == "" && errno != syscall.ENOENT {
			return guest.Errorf(guest.CodePrecondition, "cannot copy %s: %v", path, err)
		}
	}
	if errors.Is(err, filetree.ErrManifest) {
		return guest.Errorf(guest.CodePrecondition, "cannot copy %s: %v", path, err)
	}
	return explain(doing, path, err)
}

// copyOut writes a tree as frames: see guest.API. An error is for an out that
// cannot be written; what else fails is in the stream.
func copyOut(home string, req guest.CopyOutRequest, out io.Writer) error {
	w := filetree.NewFrameWriter(out)
	path, err := copyPath(home, req.Path)
	if err == nil {
		err = writeTree(path, w)
	}
	if err != nil {
		e, _ := errors.AsType[*guest.Error](copyError(doRead, strings.TrimSuffix(path, "/."), err))
		if e == nil {
			return err
		}
		if err := w.JSON(filetree.FrameFail, e); err != nil {
			return err
		}
	}
	return w.Flush()
}

func writeTree(path string, w *filetree.FrameWriter) error {
	src, err := filetree.FindSource(path)
	if err != nil {
		return err
	}
	if err := w.JSON(filetree.FrameHeader, filetree.Header{Version: 1, Name: src.Name}); err != nil {
		return err
	}
	if err := filetree.Scan(context.Background(), src.Path, frameSink{w}, filetree.ScanOptions{OneFileSystem: true}); err != nil {
		return err
	}
	return w.Write(filetree.FrameDone, nil)
}

// frameSink is the Sink of a stream of frames.
type frameSink struct{ w *filetree.FrameWriter }

// Content implements filetree.Sink.
func (s frameSink) Content(r io.Reader) (string, int64, error) {
	hash := sha256.New()
	n, err := s.w.Content(io.TeeReader(r, hash))
	if err != nil {
		// The stream must go on all the same: the scan notes what it cannot read.
		if eerr := s.w.Write(filetree.FrameEnd, nil); eerr != nil {
			return "", n, eerr
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), n, err
}

// Entry implements filetree.Sink.
func (s frameSink) Entry(e filetree.Entry) error { return s.w.JSON(filetree.FrameEntry, e) }
