package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"go.temporal.io/sdk/activity"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// copyOut takes a tree from the guest into the blob store.
func (h *Host) copyOut(ctx context.Context, t Task[session.CopyOutIn]) (session.CopyOutOut, error) {
	if h.blobs == nil {
		return session.CopyOutOut{}, report(noBlobs())
	}
	p := &copyProgress{callID: t.CallID, phase: session.CopyReceiving}
	return onGuestTelling(ctx, h, t.Ref, p.details, func(ctx context.Context, g guest.API) (session.CopyOutOut, error) {
		stream, err := g.CopyOut(ctx, guest.CopyOutRequest{Path: t.In.Path})
		if err != nil {
			return session.CopyOutOut{}, err
		}
		defer func() { _ = stream.Close() }()
		out, err := h.receive(stream, p)
		if errors.Is(err, filetree.ErrManifest) || errors.Is(err, filetree.ErrFrame) { // what comes from a sandbox is never trusted
			err = session.Wrap(err, session.FailedPrecondition, "the sandbox sent no sound tree: %s", err)
		}
		cutOff := errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, guest.ErrUnreachable)
		if cutOff && activity.GetInfo(ctx).Attempt >= internalAttempts {
			err = session.Wrap(err, session.ResourceExhausted, "what reads the files in the sandbox dies each time: is its memory used up? End some commands, then copy again")
		}
		return out, err
	})
}

// receive reads the frames that guest.API's CopyOut gives.
func (h *Host) receive(stream io.Reader, p *copyProgress) (session.CopyOutOut, error) {
	frames := filetree.NewFrameReader(stream)
	kind, payload, err := frames.Next()
	if err != nil {
		return session.CopyOutOut{}, err
	}
	if kind == filetree.FrameFail {
		return session.CopyOutOut{}, failed(payload)
	}
	var header filetree.Header
	if err := frame(kind, filetree.FrameHeader, payload, &header); err != nil {
		return session.CopyOutOut{}, err
	}
	r, w := io.Pipe()
	var out session.CopyOutOut
	var kept error
	var keeping sync.WaitGroup
	keeping.Go(func() {
		out.Manifest, _, kept = h.blobs.Put(r)
		_ = r.CloseWithError(kept)
	})
	counts, err := h.entries(frames, header, w, p)
	_ = w.CloseWithError(err)
	keeping.Wait()
	if kept != nil && err == nil {
		err = kept
	}
	out.CopyCounts = session.CopyCounts(counts)
	return out, storeError(err)
}

// entries reads entries and contents to the end of the stream, and writes the
// manifest.
func (h *Host) entries(frames *filetree.FrameReader, header filetree.Header, to io.Writer, p *copyProgress) (filetree.Counts, error) {
	m, err := filetree.NewManifestWriter(to, header)
	if err != nil {
		return filetree.Counts{}, err
	}
	var last filetree.BlobName // the content that came last
	for {
		kind, payload, err := frames.Next()
		switch {
		case err != nil:
			return m.Counts(), err
		case kind == filetree.FrameDone:
			return m.Counts(), m.Flush()
		case kind == filetree.FrameFail:
			return m.Counts(), failed(payload)
		case kind == filetree.FrameData || kind == filetree.FrameEnd:
			last, err = h.content(frames, kind, payload, p)
		default:
			err = h.entry(kind, payload, m, last, p)
		}
		if err != nil {
			return m.Counts(), err
		}
	}
}

// content keeps a content whose first frame was read.
func (h *Host) content(frames *filetree.FrameReader, kind filetree.Kind, payload []byte, p *copyProgress) (b filetree.BlobName, err error) {
	var r io.Reader = bytes.NewReader(nil)
	if kind == filetree.FrameData { // else it is empty
		r = io.MultiReader(bytes.NewReader(bytes.Clone(payload)), frames.Content())
	}
	b.SHA256, b.Size, err = h.blobs.Put(io.LimitReader(&telling{r, p}, filetree.MaxBytes+1))
	if err == nil && b.Size > filetree.MaxBytes {
		err = fmt.Errorf("%w: more than %d GiB of content", filetree.ErrManifest, filetree.MaxBytes>>30)
	}
	return b, err
}

func (h *Host) entry(kind filetree.Kind, payload []byte, m *filetree.ManifestWriter, last filetree.BlobName, p *copyProgress) error {
	var e filetree.Entry
	if err := frame(kind, filetree.FrameEntry, payload, &e); err != nil {
		return err
	}
	if e.Type == filetree.File {
		if e.SHA256 != last.SHA256 || e.Size != last.Size {
			return fmt.Errorf("%w: %.200q is not the content that came with it", filetree.ErrFrame, e.Path)
		}
		p.files.Add(1)
	}
	return m.Write(e)
}

func frame(kind, want filetree.Kind, payload []byte, v any) error {
	if kind != want {
		return fmt.Errorf("%w: frame %q out of place", filetree.ErrFrame, byte(kind))
	}
	if err := json.Unmarshal(payload, v); err != nil {
		return fmt.Errorf("%w: %w", filetree.ErrFrame, err)
	}
	return nil
}

// failed is the error that a stream ends with.
func failed(payload []byte) error {
	e := &guest.Error{}
	if err := json.Unmarshal(payload, e); err != nil || e.Code == "" {
		return fmt.Errorf("%w: an end without a reason", filetree.ErrFrame)
	}
	return e
}

// storeError explains what the store's disk says.
func storeError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return session.Wrap(err, session.ResourceExhausted, "the disk of the blob directory is full: free some space there, then copy again (%s)", err)
	}
	return err
}
