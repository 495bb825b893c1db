package supervisor_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
)

// parcel is a tree as the host has it: contents by digest, one the manifest.
type parcel struct {
	manifest string
	blobs    map[string]string
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// pack makes a tree of files below a folder "tree".
func pack(t *testing.T, files ...string) parcel {
	t.Helper()
	p := parcel{blobs: map[string]string{}}
	var text bytes.Buffer
	m, err := filetree.NewManifestWriter(&text, filetree.Header{Version: 1, Name: "tree"})
	require.NoError(t, err)
	require.NoError(t, m.Write(filetree.Entry{Path: ".", Type: filetree.Dir, Mode: 0o755, MTime: 1e18}))
	for _, f := range files {
		p.blobs[digestOf(f)] = f
		require.NoError(t, m.Write(filetree.Entry{Path: filetree.Text(f), Type: filetree.File, Mode: 0o640, MTime: 1e18, Size: int64(len(f)), SHA256: digestOf(f)}))
	}
	require.NoError(t, m.Write(filetree.Entry{Path: "zz", Type: filetree.Link, Target: "/etc/passwd"}))
	require.NoError(t, m.Flush())
	p.manifest = digestOf(text.String())
	p.blobs[p.manifest] = text.String()
	return p
}

// stream gives contents as Stage takes them.
func stream(t *testing.T, blobs map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := filetree.NewFrameWriter(&b)
	for d, content := range blobs {
		require.NoError(t, w.JSON(filetree.FrameBlob, filetree.BlobName{SHA256: d, Size: int64(len(content))}))
		_, err := w.Content(strings.NewReader(content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Write(filetree.FrameDone, nil))
	require.NoError(t, w.Flush())
	return b.Bytes()
}

func stage(t *testing.T, api guest.API, p parcel) {
	t.Helper()
	res, err := api.Stage(t.Context(), bytes.NewReader(stream(t, p.blobs)))
	require.NoError(t, err)
	require.Equal(t, len(p.blobs), res.Blobs)
}

func (p parcel) request() guest.CopyInRequest {
	return guest.CopyInRequest{CallID: callID(), Manifest: p.manifest, ArgsDigest: p.manifest}
}

// staged lists what waits in the state directory.
func staged(t *testing.T, state string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(state, "staging"))
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestCopyIn(t *testing.T) {
	opts := options(t)
	s := start(t, opts)
	p := pack(t, "a", "b")
	req := p.request()
	_, err := s.CopyIn(t.Context(), req)
	require.Equal(t, guest.CodeUnstaged, guest.CodeOf(err))
	stage(t, s, p)
	missing, err := s.Missing(t.Context(), guest.MissingRequest{Digests: []string{p.manifest, digestOf("a"), digestOf("c"), "../journal"}})
	require.NoError(t, err)
	require.Equal(t, []string{digestOf("c"), "../journal"}, missing.Missing)

	res, err := s.CopyIn(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, opts.Home+"/tree", res.Path)
	require.Equal(t, filetree.Counts{Files: 2, Dirs: 1, Links: 1, Bytes: 2}, res.Counts)
	require.Equal(t, "ab640\n/etc/passwd\n", sh(t, s, "cat tree/a tree/b; stat -c %a tree/a; readlink tree/zz"))
	require.Empty(t, staged(t, opts.State))

	// Once: what happened since stays, and nothing has to be staged for the answer.
	sh(t, s, "rm tree/a")
	again, err := s.CopyIn(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, res, again)
	require.Equal(t, "b zz\n", sh(t, s, "echo $(ls tree)"))
	other := req
	other.ArgsDigest = "other"
	_, err = s.CopyIn(t.Context(), other)
	require.Equal(t, guest.CodeInvalid, guest.CodeOf(err))

	refused := p.request()
	r, err := s.Refuse(t.Context(), guest.RefuseRequest{CallID: refused.CallID})
	require.NoError(t, err)
	require.True(t, r.Refused)
	_, err = s.CopyIn(t.Context(), refused)
	require.Equal(t, guest.CodeRefused, guest.CodeOf(err), "%v", err)
}

// Each content that arrived whole stays when the stream breaks.
func TestBrokenStage(t *testing.T) {
	opts := options(t)
	s := start(t, opts)
	whole := stream(t, map[string]string{digestOf("a"): "a"})
	whole = whole[:len(whole)-5] // without its end
	half := stream(t, map[string]string{digestOf("content"): "content"})
	cut := errors.New("cut")
	_, err := s.Stage(t.Context(), io.MultiReader(bytes.NewReader(whole), bytes.NewReader(half[:len(half)-12]), iotest.ErrReader(cut)))
	require.ErrorIs(t, err, cut)
	require.Equal(t, []string{digestOf("a")}, staged(t, opts.State))
	_, err = s.Stage(t.Context(), bytes.NewReader(whole))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	for name, blobs := range map[string]map[string]string{
		"other content": {digestOf("a"): "b"},
		"longer":        {digestOf("a"): "aa"},
		"a path":        {"../../journal": "a"},
	} {
		_, err = s.Stage(t.Context(), bytes.NewReader(stream(t, blobs)))
		require.Equal(t, guest.CodeInvalid, guest.CodeOf(err), name)
	}
	require.Equal(t, []string{digestOf("a")}, staged(t, opts.State))
}

func TestStagingAge(t *testing.T) {
	opts := options(t)
	s := start(t, opts)
	stage(t, s, pack(t, "a"))
	dir := filepath.Join(opts.State, "staging")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "part-x"), nil, 0o600))
	long := time.Now().Add(-7 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, digestOf("a")), long, long))
	require.NoError(t, s.Close())
	start(t, opts)
	left := staged(t, opts.State)
	require.Len(t, left, 1)
	require.NotContains(t, left, digestOf("a"))
}

func TestCopyInFails(t *testing.T) {
	s := start(t, options(t))
	p := pack(t, "a", "b")
	stage(t, s, p)
	sh(t, s, "mkdir -p tree/b; touch tree/b/x file")
	req := p.request()
	_, err := s.CopyIn(t.Context(), req)
	require.Equal(t, guest.CodePrecondition, guest.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "tree/b: it is a directory")
	require.ErrorContains(t, err, "1 files, 1 folders")
	_, again := s.CopyIn(t.Context(), req)
	require.Equal(t, err, again)
	require.NotContains(t, sh(t, s, "ls -A tree"), ".mcp-sandbox")

	req = p.request() // what was staged is still there
	req.Path = "file"
	_, err = s.CopyIn(t.Context(), req)
	require.ErrorContains(t, err, "file")
	require.Equal(t, guest.CodePrecondition, guest.CodeOf(err), "%v", err)
	req = p.request()
	req.Path = "~/x"
	_, err = s.CopyIn(t.Context(), req)
	require.Equal(t, guest.CodeInvalid, guest.CodeOf(err), "%v", err)

	blob := "no manifest"
	_, err = s.Stage(t.Context(), bytes.NewReader(stream(t, map[string]string{digestOf(blob): blob})))
	require.NoError(t, err)
	_, err = s.CopyIn(t.Context(), parcel{manifest: digestOf(blob)}.request())
	require.Equal(t, guest.CodeInvalid, guest.CodeOf(err), "%v", err)
}

// A child that takes nothing, or dies, ends the copy and not the guest.
func TestCopyWithoutProgress(t *testing.T) {
	for name, argv := range map[string][]string{"stalls": {"/bin/sleep", mark()}, "dies": {"/bin/true"}} {
		t.Run(name, func(t *testing.T) {
			opts := options(t)
			opts.FileTimeout = 200 * time.Millisecond
			opts.FileOp = argv
			s := start(t, opts)
			p := pack(t, strings.Repeat("a", 200))
			stage(t, s, p)
			_, err := s.CopyIn(t.Context(), p.request())
			require.Equal(t, guest.CodeLost, guest.CodeOf(err), "%v", err)
			out, err := s.CopyOut(t.Context(), guest.CopyOutRequest{})
			require.NoError(t, err)
			_, _, err = filetree.NewFrameReader(out).Next()
			require.Error(t, err)
			require.NoError(t, out.Close())
			require.False(t, alive(argv[len(argv)-1]+"\x00"))
		})
	}
}

// readTree reads a CopyOut to its end: entries by path, contents by digest.
func readTree(t *testing.T, r io.ReadCloser) (h filetree.Header, entries map[string]filetree.Entry, blobs map[string]string, fail *guest.Error) {
	t.Helper()
	defer func() { require.NoError(t, r.Close()) }()
	entries, blobs = map[string]filetree.Entry{}, map[string]string{}
	frames := filetree.NewFrameReader(r)
	var content []byte
	for {
		kind, payload, err := frames.Next()
		require.NoError(t, err)
		switch kind {
		case filetree.FrameHeader:
			require.NoError(t, json.Unmarshal(payload, &h))
		case filetree.FrameData:
			content = append(content, payload...)
		case filetree.FrameEnd:
			blobs[digestOf(string(content))] = string(content)
			content = nil
		case filetree.FrameEntry:
			var e filetree.Entry
			require.NoError(t, json.Unmarshal(payload, &e))
			if e.Note() {
				e.Path = "note " + e.Path
			}
			entries[string(e.Path)] = e
		case filetree.FrameFail:
			require.NoError(t, json.Unmarshal(payload, &fail))
			return h, entries, blobs, fail
		case filetree.FrameDone:
			return h, entries, blobs, nil
		default:
			t.Fatalf("frame %q", byte(kind))
		}
	}
}

func TestCopyOut(t *testing.T) {
	opts := options(t)
	s := start(t, opts)
	sh(t, s, "mkdir -p d/e; printf one > d/f; head -c 300000 /dev/zero > d/big; ln -s /etc/passwd d/link; mkfifo d/fifo; chmod 4750 d/f; ln -s d dlink")
	out := func(path string) (filetree.Header, map[string]filetree.Entry, map[string]string, *guest.Error) {
		r, err := s.CopyOut(t.Context(), guest.CopyOutRequest{Path: path})
		require.NoError(t, err)
		return readTree(t, r)
	}
	h, entries, blobs, fail := out("d")
	require.Nil(t, fail)
	require.EqualValues(t, "d", h.Name)
	require.Equal(t, "one", blobs[entries["f"].SHA256])
	require.Equal(t, strings.Repeat("\x00", 300_000), blobs[entries["big"].SHA256])
	require.EqualValues(t, "/etc/passwd", entries["link"].Target)
	require.Equal(t, filetree.Skipped, entries["note fifo"].Type)
	require.Len(t, entries, 7, "with a note on the setuid bit")

	h, _, _, fail = out("")
	require.Nil(t, fail)
	require.Empty(t, h.Name, "the working directory's content")
	_, entries, _, _ = out("dlink")
	require.Equal(t, filetree.Link, entries["."].Type)
	_, entries, _, _ = out("dlink/")
	require.Equal(t, filetree.Dir, entries["."].Type)
	_, entries, _, _ = out(opts.Home + "/d/f")
	require.Equal(t, filetree.Altered, entries["note ."].Type, "its setuid bit, after the file")
	_, _, _, fail = out("none")
	require.Equal(t, guest.CodeNotFound, fail.Code)
	_, _, _, fail = out("d/fifo")
	require.Equal(t, guest.CodePrecondition, fail.Code)

	// One that is given up ends its child.
	r, err := s.CopyOut(t.Context(), guest.CopyOutRequest{Path: "d"})
	require.NoError(t, err)
	require.NoError(t, r.Close())
}
