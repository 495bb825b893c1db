package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"

	"go.temporal.io/sdk/activity"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Blobs keep contents by their SHA-256, in lower-case hex. internal/blobstore
// implements it.
type Blobs interface {
	// Dir says where they are, for messages.
	Dir() string
	Has(digest string) bool
	// Open gives a content, and an error instead of its end when it is damaged.
	// fs.ErrNotExist when it is not there.
	Open(digest string) (io.ReadCloser, error)
	// Put keeps what r gives, to its end.
	Put(r io.Reader) (digest string, size int64, err error)
}

// UseBlobs gives the host the store that copies go through. Without one they are
// refused. Call it before Register.
func (h *Host) UseBlobs(b Blobs) { h.blobs = b }

// stageRounds is how often a copy finds contents not staged that it has just
// staged: another copy of the session may take them away with its own.
const stageRounds = 10

// copyIn brings what the guest lacks of a tree to it, then has it made. Whatever
// was staged before, by an earlier attempt too, is not sent again.
func (h *Host) copyIn(ctx context.Context, t Task[session.CopyInIn]) (session.CopyInOut, error) {
	if h.blobs == nil {
		return session.CopyInOut{}, report(noBlobs())
	}
	p := &copyProgress{callID: t.CallID, phase: session.CopySending}
	return onGuestTelling(ctx, h, t.Ref, p.details, func(ctx context.Context, g guest.API) (session.CopyInOut, error) {
		req := guest.CopyInRequest{CallID: t.CallID, Path: t.In.Path, Manifest: t.In.Manifest, ArgsDigest: t.Digest}
		for round := 1; ; round++ {
			// First of all: an earlier attempt may have come that far.
			res, err := g.CopyIn(ctx, req)
			if err == nil {
				return session.CopyInOut{Path: res.Path, CopyCounts: session.CopyCounts(res.Counts)}, nil
			}
			if guest.CodeOf(err) != guest.CodeUnstaged || round > stageRounds {
				return session.CopyInOut{}, err
			}
			p.set(session.CopySending)
			if err := h.stage(ctx, g, t.In.Manifest, p); err != nil {
				return session.CopyInOut{}, err
			}
			p.set(session.CopyApplying)
		}
	})
}

// stage sends the contents of a tree that the guest lacks, and its manifest.
func (h *Host) stage(ctx context.Context, g guest.API, manifest string, p *copyProgress) error {
	lacks, size, err := h.missing(ctx, g, manifest)
	if err != nil {
		return err
	}
	p.total(len(lacks), size)
	r, w := io.Pipe()
	var sending sync.WaitGroup
	var sent error
	sending.Go(func() {
		sent = h.send(ctx, w, lacks, p)
		_ = w.CloseWithError(sent)
	})
	_, err = g.Stage(ctx, r)
	_ = r.CloseWithError(errStaged) // should it have answered before the end
	sending.Wait()
	if err != nil && sent != nil && !errors.Is(sent, errStaged) && guest.CodeOf(err) == "" {
		return sent // the stream broke for a reason of ours
	}
	return err
}

var errStaged = errors.New("the guest has answered")

// missing reads a manifest and asks the guest which of its contents it lacks,
// itself included.
func (h *Host) missing(ctx context.Context, g guest.API, manifest string) (lacks []filetree.BlobName, size int64, err error) {
	f, err := h.open(manifest)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	counted := &countingReader{r: f}
	m, err := filetree.NewManifestReader(counted)
	if err != nil {
		return nil, 0, badManifest(err)
	}
	asked := map[string]int64{}
	var batch []string
	seen := map[string]bool{}
	ask := func() error {
		res, err := g.Missing(ctx, guest.MissingRequest{Digests: batch})
		for _, d := range res.Missing {
			lacks = append(lacks, filetree.BlobName{SHA256: d, Size: asked[d]})
			size += asked[d]
		}
		clear(asked)
		batch = batch[:0]
		return err
	}
	for {
		e, err := m.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, badManifest(err)
		}
		if e.Type != filetree.File || seen[e.SHA256] {
			continue
		}
		seen[e.SHA256] = true
		batch, asked[e.SHA256] = append(batch, e.SHA256), e.Size
		if len(batch) == guest.MaxMissing {
			if err := ask(); err != nil {
				return nil, 0, err
			}
		}
	}
	batch, asked[manifest] = append(batch, manifest), counted.n // last: with it the guest has all
	return lacks, size, ask()
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func badManifest(err error) error {
	if errors.Is(err, filetree.ErrManifest) {
		return session.Wrap(err, session.InvalidArgument, "%s", err)
	}
	return err
}

// send writes contents as the frames that guest.API's Stage takes.
func (h *Host) send(ctx context.Context, to io.Writer, blobs []filetree.BlobName, p *copyProgress) error {
	w := filetree.NewFrameWriter(to)
	for _, b := range blobs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r, err := h.open(b.SHA256)
		if err != nil {
			return err
		}
		if err = w.JSON(filetree.FrameBlob, b); err == nil {
			_, err = w.Content(&telling{r, p})
		}
		_ = r.Close()
		if err != nil {
			return err
		}
		p.files.Add(1)
	}
	if err := w.Write(filetree.FrameDone, nil); err != nil {
		return err
	}
	return w.Flush()
}

// open opens a content; that it is not there is told to whoever copies.
func (h *Host) open(digest string) (io.ReadCloser, error) {
	r, err := h.blobs.Open(digest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, session.Wrap(err, session.FailedPrecondition,
			"the worker of the session's host finds no content %s in its blob directory %s: give cp and that worker the same --blob-dir, one that both can reach, then copy again", digest, h.blobs.Dir())
	}
	if err != nil {
		return nil, unreadable(err)
	}
	return &blobReader{r}, nil
}

// blobReader makes errors of reading final: no other attempt would mend them.
type blobReader struct{ io.ReadCloser }

func (b *blobReader) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unreadable(err)
	}
	return n, err
}

func unreadable(err error) error {
	return session.Wrap(err, session.FailedPrecondition, "the blob directory cannot be read: %s", err)
}

func noBlobs() *session.Error {
	return session.Errorf(session.FailedPrecondition, "the worker of the session's host has no blob directory: start it with --blob-dir")
}

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

// copyProgress counts what a copy has done. Its details are the heartbeat.
type copyProgress struct {
	callID string

	mu                     sync.Mutex
	phase                  string
	totalFiles, totalBytes int64

	files, bytes atomic.Int64
}

func (p *copyProgress) set(phase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase = phase
}

func (p *copyProgress) total(files int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.totalFiles, p.totalBytes = int64(files), bytes
	p.files.Store(0)
	p.bytes.Store(0)
}

func (p *copyProgress) details() any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return session.CopyProgress{
		CallID: p.callID, Phase: p.phase, Files: p.files.Load(), Bytes: p.bytes.Load(),
		TotalFiles: p.totalFiles, TotalBytes: p.totalBytes,
	}
}

// telling counts what is read.
type telling struct {
	io.Reader
	p *copyProgress
}

func (t *telling) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	t.p.bytes.Add(int64(n))
	return n, err
}
