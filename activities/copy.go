package activities

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Blobs keep contents by their SHA-256, in lower-case hex. internal/blobstore
// implements it.
type Blobs interface {
	// Dir says where they are, for messages.
	Dir() string
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
