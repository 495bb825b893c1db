package activities_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/activities/fake"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
	"github.com/mcp-sandbox/mcp-sandbox/internal/blobstore"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// copying performs an activity on a host with a blob store.
func copying[Out any](t *testing.T, b activities.Backend, blobs activities.Blobs, name string, in any, beats ...func(session.CopyProgress)) (Out, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var p session.CopyProgress
		if details.HasValues() && details.Get(&p) == nil {
			for _, beat := range beats {
				beat(p)
			}
		}
	})
	host := activities.NewHost(b, nil)
	if blobs != nil {
		host.UseBlobs(blobs)
	}
	host.Register(env)
	var out Out
	v, err := env.ExecuteActivity(name, in)
	if err == nil {
		require.NoError(t, v.Get(&out))
	}
	return out, err
}

func store(t *testing.T) *blobstore.Store {
	t.Helper()
	s, err := blobstore.Open(t.TempDir())
	require.NoError(t, err)
	return s
}

// sandboxed makes a fake sandbox.
func sandboxed(t *testing.T) (*fake.Backend, activities.Sandbox) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fake") //nolint:usetesting // t.TempDir's name is too long for sockets
	require.NoError(t, err)
	b := fake.New(dir)
	t.Cleanup(func() {
		require.NoError(t, b.Close())
		require.NoError(t, os.RemoveAll(dir))
	})
	box, err := b.CreateSandbox(t.Context(), activities.SandboxSpec{
		SessionID: session.MakeSessionID([]byte("secret"), "alice", "c"), Incarnation: 1, MemoryMB: 64, ExpiresAt: time.Now().Add(time.Hour),
	})
	require.NoError(t, err)
	return b, box
}

// packed puts a tree of files, contents by path, into a store.
func packed(t *testing.T, blobs *blobstore.Store, files ...string) session.CopyInIn {
	t.Helper()
	var text bytes.Buffer
	m, err := filetree.NewManifestWriter(&text, filetree.Header{Version: 1, Name: "tree"})
	require.NoError(t, err)
	require.NoError(t, m.Write(filetree.Entry{Path: ".", Type: filetree.Dir, Mode: 0o755}))
	in := session.CopyInIn{Files: len(files)}
	for _, f := range files {
		content := strings.Repeat(f, 100_000)
		d, size, err := blobs.Put(strings.NewReader(content))
		require.NoError(t, err)
		require.NoError(t, m.Write(filetree.Entry{Path: filetree.Text(f), Type: filetree.File, Mode: 0o644, Size: size, SHA256: d}))
		in.Bytes += size
	}
	require.NoError(t, m.Flush())
	in.Manifest, _, err = blobs.Put(&text)
	require.NoError(t, err)
	return in
}

func copyTask[In any](ref activities.SandboxRef, id string, in In) activities.Task[In] {
	return activities.Task[In]{Ref: ref, CallID: id, Digest: "d", In: in}
}

func TestCopies(t *testing.T) {
	b, box := sandboxed(t)
	blobs := store(t)
	in := packed(t, blobs, "a", "b", "same", "x")
	task := copyTask(box.Ref, "c_in", in)
	out, err := copying[session.CopyInOut](t, b, blobs, activities.CopyIn, task)
	require.NoError(t, err)
	require.Equal(t, box.WorkingDir+"/tree", out.Path)
	require.Equal(t, 4, out.Files)
	require.Equal(t, in.Bytes, out.Bytes)
	got, err := os.ReadFile(filepath.Join(box.WorkingDir, "tree", "same"))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("same", 100_000), string(got))

	// The answer of a call that is done needs nothing of the store.
	again, err := copying[session.CopyInOut](t, b, store(t), activities.CopyIn, task)
	require.NoError(t, err)
	require.Equal(t, out, again)

	back := store(t)
	read, err := copying[session.CopyOutOut](t, b, back, activities.CopyOut, copyTask(box.Ref, "c_out", session.CopyOutIn{Path: "tree"}))
	require.NoError(t, err)
	require.Equal(t, out.CopyCounts, read.CopyCounts)
	f, err := back.Open(read.Manifest)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	m, err := filetree.NewManifestReader(f)
	require.NoError(t, err)
	require.EqualValues(t, "tree", m.Header.Name)
	for {
		e, err := m.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		r, err := back.Open(e.SHA256)
		require.Equal(t, e.Type == filetree.File, err == nil)
		if err == nil {
			require.NoError(t, r.Close())
		}
	}
	_, err = copying[session.CopyOutOut](t, b, back, activities.CopyOut, copyTask(box.Ref, "c_none", session.CopyOutIn{Path: "none"}))
	requireFinal(t, err, string(session.NotFound))
}

// What was staged by an attempt that broke off is not sent again.
func TestCopyInResumes(t *testing.T) {
	b, box := sandboxed(t)
	blobs := store(t)
	in := packed(t, blobs, strings.Repeat("a", 20), strings.Repeat("b", 20), strings.Repeat("c", 20)) // 2 MB each, more than is under way at a time
	api, err := b.Guest(t.Context(), box.Ref)
	require.NoError(t, err)
	counting := &countingGuest{API: api}
	cut := &cutBlobs{Blobs: blobs, left: 3}
	stub := &stubBackend{guest: counting, state: activities.SandboxRunning}
	_, err = copying[session.CopyInOut](t, stub, cut, activities.CopyIn, copyTask(box.Ref, "c_1", in))
	require.ErrorContains(t, err, "cut")
	_, err = copying[session.CopyInOut](t, stub, blobs, activities.CopyIn, copyTask(box.Ref, "c_1", in))
	require.NoError(t, err)
	require.Len(t, counting.staged, 2)
	// Of three contents the first at least had arrived.
	require.Less(t, counting.staged[1], in.Bytes)
}

// countingGuest counts what is sent to it.
type countingGuest struct {
	guest.API
	staged []int64
}

func (g *countingGuest) Stage(ctx context.Context, body io.Reader) (guest.StageResult, error) {
	c := &countReader{Reader: body}
	res, err := g.API.Stage(ctx, c)
	g.staged = append(g.staged, c.n)
	return res, err
}

type countReader struct {
	io.Reader
	n int64
}

func (c *countReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// cutBlobs breaks in the content after so many.
type cutBlobs struct {
	activities.Blobs
	left int
}

func (c *cutBlobs) Open(digest string) (io.ReadCloser, error) {
	if c.left--; c.left < 0 {
		return nil, errors.New("cut")
	}
	return c.Blobs.Open(digest)
}

func TestCopyRefused(t *testing.T) {
	b, box := sandboxed(t)
	blobs := store(t)
	in := packed(t, blobs, "a")
	task := copyTask(box.Ref, "c_1", in)
	_, err := copying[session.CopyInOut](t, b, nil, activities.CopyIn, task)
	requireFinal(t, err, string(session.FailedPrecondition))
	require.ErrorContains(t, err, "--blob-dir")
	_, err = copying[session.CopyOutOut](t, b, nil, activities.CopyOut, copyTask(box.Ref, "c_1", session.CopyOutIn{}))
	requireFinal(t, err, string(session.FailedPrecondition))

	elsewhere := store(t)
	_, err = copying[session.CopyInOut](t, b, elsewhere, activities.CopyIn, task)
	requireFinal(t, err, string(session.FailedPrecondition))
	require.ErrorContains(t, err, elsewhere.Dir())
	require.ErrorContains(t, err, "--blob-dir")

	sum := sha256.Sum256([]byte(strings.Repeat("a", 100_000)))
	damaged := filepath.Join(blobs.Dir(), hex.EncodeToString(sum[:]))
	require.NoError(t, os.WriteFile(damaged, []byte(strings.Repeat("b", 100_000)), 0o600))
	_, err = copying[session.CopyInOut](t, b, blobs, activities.CopyIn, task)
	requireFinal(t, err, string(session.FailedPrecondition))
	require.ErrorContains(t, err, damaged)

	junk, _, err := blobs.Put(strings.NewReader("no manifest"))
	require.NoError(t, err)
	_, err = copying[session.CopyInOut](t, b, blobs, activities.CopyIn, copyTask(box.Ref, "c_2", session.CopyInIn{Manifest: junk}))
	requireFinal(t, err, string(session.InvalidArgument))
}

// A guest is in the sandbox: what it sends is not believed.
func TestHostileStreams(t *testing.T) {
	const d = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	header := func(w *filetree.FrameWriter) error {
		return w.JSON(filetree.FrameHeader, filetree.Header{Version: 1, Name: "x"})
	}
	root := func(w *filetree.FrameWriter) error {
		return errors.Join(header(w), w.JSON(filetree.FrameEntry, filetree.Entry{Path: ".", Type: filetree.Dir}))
	}
	for name, say := range map[string]func(w *filetree.FrameWriter) error{
		"a name that is a path": func(w *filetree.FrameWriter) error {
			return w.JSON(filetree.FrameHeader, filetree.Header{Version: 1, Name: "../x"})
		},
		"out of the tree": func(w *filetree.FrameWriter) error {
			return errors.Join(root(w), w.JSON(filetree.FrameEntry, filetree.Entry{Path: "../x", Type: filetree.Dir}))
		},
		"content that did not come": func(w *filetree.FrameWriter) error {
			return errors.Join(root(w), w.JSON(filetree.FrameEntry, filetree.Entry{Path: "x", Type: filetree.File, SHA256: d}))
		},
		"another content": func(w *filetree.FrameWriter) error {
			return errors.Join(root(w), w.Write(filetree.FrameData, []byte("x")), w.Write(filetree.FrameEnd, nil),
				w.JSON(filetree.FrameEntry, filetree.Entry{Path: "x", Type: filetree.File, SHA256: d, Size: 1}))
		},
		"no root":   func(w *filetree.FrameWriter) error { return errors.Join(header(w), w.Write(filetree.FrameDone, nil)) },
		"no header": func(w *filetree.FrameWriter) error { return w.Write(filetree.FrameDone, nil) },
		"no frame":  func(w *filetree.FrameWriter) error { return errors.Join(root(w), w.Write('?', nil)) },
		"no JSON":   func(w *filetree.FrameWriter) error { return w.Write(filetree.FrameHeader, []byte("{")) },
		"no reason": func(w *filetree.FrameWriter) error { return w.Write(filetree.FrameFail, []byte("{}")) },
		"a bad note": func(w *filetree.FrameWriter) error {
			return errors.Join(root(w), w.JSON(filetree.FrameEntry, filetree.Entry{Type: filetree.Skipped}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			w := filetree.NewFrameWriter(&text)
			require.NoError(t, say(w))
			require.NoError(t, w.Flush())
			stub := &stubBackend{guest: &sayingGuest{text: text.String()}, state: activities.SandboxRunning}
			blobs := store(t)
			_, err := copying[session.CopyOutOut](t, stub, blobs, activities.CopyOut, task(session.CopyOutIn{}))
			requireFinal(t, err, string(session.FailedPrecondition))
			require.ErrorContains(t, err, "no sound tree")
		})
	}
	t.Run("cut off", func(t *testing.T) {
		stub := &stubBackend{guest: &sayingGuest{text: "H"}, state: activities.SandboxRunning}
		_, err := copying[session.CopyOutOut](t, stub, store(t), activities.CopyOut, task(session.CopyOutIn{}))
		requireRetried(t, err)
	})
}

type sayingGuest struct {
	guest.API
	text string
}

func (g *sayingGuest) CopyOut(context.Context, guest.CopyOutRequest) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(g.text)), nil
}
