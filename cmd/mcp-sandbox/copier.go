package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
	"github.com/mcp-sandbox/mcp-sandbox/internal/blobstore"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	// copySlice is how long a copy is waited for at a time. Between two slices the
	// connection is made anew where it broke: a server that was killed may come
	// back on another port.
	copySlice = 5 * time.Second
	// awayLimit is how long a server may be away in the middle of a copy.
	awayLimit = 2 * time.Minute
	// pollEvery is how often the worker's progress is asked for.
	pollEvery = 300 * time.Millisecond
)

// copier performs one copy.
type copier struct {
	copyJob
	place  copyPlace
	bar    *progress
	log    *slog.Logger
	callID string
	conn   client.Client
	admin  *session.Admin
	blobs  *blobstore.Store
	asked  bool // the session was asked: what it does goes on without this command
}

func (c *copier) close() { c.conn.Close() }

func (c *copier) newAdmin() *session.Admin {
	return session.NewAdmin(session.NewClient(session.ClientOptions{Temporal: c.conn, AnswerWithin: copySlice, Logger: c.log}))
}

// copyIn reads the tree into the blob store, then has the sandbox make it.
func (c *copier) copyIn(ctx context.Context, res *copyResult) error {
	src, err := filetree.FindSource(c.local)
	if err != nil {
		return err
	}
	sink := &blobSink{blobs: c.blobs, bar: c.bar, note: res.note}
	digest, err := sink.scan(ctx, src)
	if err != nil {
		return err
	}
	c.bar.clear()
	counts := sink.manifest.Counts()
	in := session.CopyInIn{Path: c.remote, Manifest: digest, Files: counts.Files, Bytes: counts.Bytes}
	out, err := ask(ctx, c, func(ctx context.Context) (session.CopyInOut, error) {
		return c.admin.CopyIn(ctx, c.sessionID, c.callID, in)
	})
	if err != nil {
		return err
	}
	res.Path, res.CopyCounts = out.Path, out.CopyCounts
	return nil
}

// ask asks the session for the copy, again under the same call ID as long as
// there is no answer, and shows the progress meanwhile.
func ask[Out any](ctx context.Context, c *copier, call func(context.Context) (Out, error)) (Out, error) {
	c.asked = true
	defer c.watch(ctx)()
	var away time.Time // since when
	for {
		// Somewhat longer than the client's own limit, whose error says more.
		slice, cancel := context.WithTimeout(ctx, copySlice+time.Second)
		out, err := call(slice)
		cancel()
		if err == nil || ctx.Err() != nil || session.CodeOf(err) != session.DeadlineExceeded {
			return out, err
		}
		if away.IsZero() {
			away = time.Now()
		}
		fresh, derr := dialRunning(ctx, c.place.temporal, c.place.dataDir, c.log)
		switch {
		case derr == nil:
			c.conn.Close()
			c.conn = fresh
			c.admin = c.newAdmin()
			away = time.Time{}
		case time.Since(away) > awayLimit:
			return out, fmt.Errorf("%w; when it is back, run the same cp again", derr)
		default:
			c.bar.show("the server is away; waiting for it")
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// watch shows the worker's progress until the result is called.
func (c *copier) watch(ctx context.Context) (stop func()) {
	if !c.bar.on() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	admin := c.admin // that of the first connection; after a restart there is no progress to be seen
	work.Go(func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if p, ok := admin.CopyProgress(ctx, c.sessionID, c.callID); ok {
				c.bar.show("%s", progressText(p))
			} else {
				c.bar.show("waiting for the sandbox")
			}
		}
	})
	return func() {
		cancel()
		work.Wait()
		c.bar.clear()
	}
}

func progressText(p session.CopyProgress) string {
	switch p.Phase {
	case session.CopySending:
		return "sending " + doneOf(p.Bytes, p.TotalBytes)
	case session.CopyApplying:
		return "writing in the sandbox"
	}
	return fmt.Sprintf("receiving %d files, %s", p.Files, sizeText(p.Bytes))
}

// blobSink puts a scanned tree into the blob store.
type blobSink struct {
	blobs    *blobstore.Store
	bar      *progress
	note     func(filetree.Entry)
	manifest *filetree.ManifestWriter
	files    int
	bytes    int64
}

// scan gives the digest of the tree's manifest.
func (b *blobSink) scan(ctx context.Context, src filetree.Source) (digest string, err error) {
	r, w := io.Pipe()
	var kept error
	var keeping sync.WaitGroup
	keeping.Go(func() {
		digest, _, kept = b.blobs.Put(r)
		_ = r.CloseWithError(kept)
	})
	err = b.write(ctx, src, w)
	_ = w.CloseWithError(err)
	keeping.Wait()
	return digest, errors.Join(err, kept)
}

func (b *blobSink) write(ctx context.Context, src filetree.Source, w io.Writer) (err error) {
	if b.manifest, err = filetree.NewManifestWriter(w, filetree.Header{Version: 1, Name: src.Name}); err != nil {
		return err
	}
	if err := filetree.Scan(ctx, src.Path, b, filetree.ScanOptions{}); err != nil {
		return err
	}
	return b.manifest.Flush()
}

// Content implements filetree.Sink.
func (b *blobSink) Content(r io.Reader) (string, int64, error) {
	digest, size, err := b.blobs.Put(r)
	b.bytes += size
	return digest, size, err
}

// Entry implements filetree.Sink.
func (b *blobSink) Entry(e filetree.Entry) error {
	if e.Note() {
		b.note(e)
	}
	if e.Type == filetree.File {
		b.files++
		b.bar.show("reading %d files, %s", b.files, sizeText(b.bytes))
	}
	return b.manifest.Write(e)
}

// copyOut has the sandbox give the tree into the blob store, then makes it here.
func (c *copier) copyOut(ctx context.Context, res *copyResult) error {
	out, err := ask(ctx, c, func(ctx context.Context) (session.CopyOutOut, error) {
		return c.admin.CopyOut(ctx, c.sessionID, c.callID, session.CopyOutIn{Path: c.remote})
	})
	if err != nil {
		return err
	}
	c.asked = false // it is done
	f, err := c.blobs.Open(out.Manifest)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the tree is not in the blob directory %s: give cp the --blob-dir of the session's worker, one that both can reach", c.blobs.Dir())
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	m, err := filetree.NewManifestReader(f)
	if err != nil {
		return err
	}
	dest, err := absolute(c.local)
	if err != nil {
		return err
	}
	var files int
	var bytes int64
	made, err := filetree.Apply(ctx, dest, m.Header, &blobContents{m, c.blobs}, filetree.ApplyOptions{
		KeepSame: true, KeepInside: true, Note: res.note,
		Progress: func(f int, b int64) {
			files, bytes = files+f, bytes+b
			c.bar.show("writing %d of %d files, %s", files, out.Files, doneOf(bytes, out.Bytes))
		},
	})
	res.Path, res.CopyCounts, res.Unchanged = made.Path, session.CopyCounts(made.Counts), made.Unchanged
	return err
}

// absolute is filepath.Abs with the slash at the end, which means a folder.
func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err == nil && (strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/.")) {
		abs = strings.TrimSuffix(abs, "/") + "/"
	}
	return abs, err
}

// blobContents are the Contents of a manifest in the blob store.
type blobContents struct {
	*filetree.ManifestReader
	blobs *blobstore.Store
}

// Open implements filetree.Contents.
func (b *blobContents) Open(e filetree.Entry) (io.ReadCloser, error) {
	r, err := b.blobs.Open(e.SHA256)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the content of %s is no longer in the blob directory %s; copy again", e.Path, b.blobs.Dir())
	}
	return r, err
}
