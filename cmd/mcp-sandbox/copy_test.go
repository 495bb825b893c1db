package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func TestParseCopy(t *testing.T) {
	in := func(local, id, remote string) copyJob { return copyJob{sessionID: id, remote: remote, local: local} }
	out := func(id, remote, local string) copyJob {
		return copyJob{sessionID: id, remote: remote, local: local, out: true}
	}
	for _, row := range []struct {
		args [2]string
		want copyJob
	}{
		{[2]string{"dir", "s_a:x"}, in("dir", "s_a", "x")},
		{[2]string{"dir/.", "s_a:"}, in("dir/.", "s_a", "")},
		{[2]string{"./s_a:x", "s_b:a:b"}, in("./s_a:x", "s_b", "a:b")},
		{[2]string{"a:b", "s_b:/"}, in("a:b", "s_b", "/")},
		{[2]string{"d/s_a:x", "s_b:y"}, in("d/s_a:x", "s_b", "y")},
		{[2]string{"s_a:x", "."}, out("s_a", "x", ".")},
		{[2]string{"s_a:", "s_file"}, out("s_a", "", "s_file")},
	} {
		job, err := parseCopy(row.args[0], row.args[1])
		require.NoError(t, err)
		require.Equal(t, row.want, job)
	}
}

func TestCopyUsageErrors(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"a"}, "takes a source and a destination"},
		{[]string{"a", "b", "c"}, "takes a source and a destination"},
		{[]string{"a", "b"}, "write one as SESSION_ID:PATH"},
		{[]string{"s_a:x", "s_b:y"}, "are in sandboxes; copy out of the one first"},
		{[]string{"", "s_b:y"}, "an empty path"},
		{[]string{"a", "./s_a:b"}, "write one as SESSION_ID:PATH"},
	} {
		code, stdout, stderr := invoke(t, append([]string{"cp"}, row.args...)...)
		require.Equal(t, 2, code, stderr)
		require.Empty(t, stdout)
		require.Contains(t, stderr, row.want)
	}
	code, _, stderr := invoke(t, "cp", ".", "s_a:")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "no server runs on the data dir")
}

// What a copy reads goes into the store, with a manifest that Apply takes.
func TestBlobSink(t *testing.T) {
	src, dest := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dest")
	require.NoError(t, os.MkdirAll(src+"/d", 0o755))
	require.NoError(t, os.WriteFile(src+"/d/f", []byte("content"), 0o640))
	require.NoError(t, os.WriteFile(src+"/g", nil, 0o600))
	blobs, err := openBlobs(filepath.Join(t.TempDir(), "blobs"))
	require.NoError(t, err)
	found, err := filetree.FindSource(src + "/.")
	require.NoError(t, err)
	sink := &blobSink{blobs: blobs, bar: &progress{}}
	digest, err := sink.scan(t.Context(), found)
	require.NoError(t, err)
	require.Equal(t, filetree.Counts{Files: 2, Dirs: 2, Bytes: 7}, sink.manifest.Counts())

	f, err := blobs.Open(digest)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	m, err := filetree.NewManifestReader(f)
	require.NoError(t, err)
	res, err := filetree.Apply(t.Context(), dest, m.Header, &blobContents{m, blobs}, filetree.ApplyOptions{})
	require.NoError(t, err)
	require.Equal(t, dest, res.Path)
	b, err := os.ReadFile(dest + "/d/f")
	require.NoError(t, err)
	require.Equal(t, "content", string(b))
}

// The way in for other commands.
func TestCopyInWithoutServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	_, err := copyIn(t.Context(), copyPlace{dataDir: dir}, "s_a", ".", "", nil, slog.New(slog.DiscardHandler))
	var away *notRunningError
	require.ErrorAs(t, err, &away)
	require.NoDirExists(t, dir)
}

func TestAbsolute(t *testing.T) {
	wd, err := os.Getwd()
	require.NoError(t, err)
	for in, want := range map[string]string{"x": wd + "/x", "x/": wd + "/x/", ".": wd, "./": wd + "/", "/": "/", "/a/.": "/a/"} {
		got, err := absolute(in)
		require.NoError(t, err)
		require.Equal(t, want, got, in)
	}
}

func TestCopyReport(t *testing.T) {
	r := copyResult{
		SessionID: "s_a", Direction: "in", Path: "/home/sandbox/x", Notes: []copyNote{},
		CopyCounts: session.CopyCounts{Files: 1, Bytes: 2048, Skipped: maxNotes + 1, Unread: 1},
	}
	for range maxNotes + 1 {
		r.note(filetree.Entry{Path: "a\x1b[2J", Type: filetree.Skipped, Reason: "a FIFO"})
	}
	var out, errs bytes.Buffer
	require.NoError(t, r.report(process{stdout: &out, stderr: &errs}, output{}, time.Second))
	require.Equal(t, "Copied 1 file (2.0 KiB) to s_a:/home/sandbox/x in 1.0 s, 1001 skipped, 1 not read\n", out.String())
	require.True(t, strings.HasPrefix(errs.String(), `skipped: "a\x1b[2J": a FIFO`+"\n"), errs.String()[:100])
	require.True(t, strings.HasSuffix(errs.String(), "and 2 more\n"))
	out.Reset()
	require.NoError(t, r.report(process{stdout: &out, stderr: &errs}, output{json: true}, time.Second))
	require.Contains(t, out.String(), `"files": 1`)
}

func TestProgressLine(t *testing.T) {
	require.False(t, newProgress(&bytes.Buffer{}).on())
	(&progress{}).show("nobody sees it")
	var w bytes.Buffer
	p := &progress{w: &w, width: func() int { return 20 }}
	p.show("reading %s", "a\x1bb and a long name that does not fit")
	p.show("too soon")
	require.Equal(t, "\r\x1b[Kreading a?b and a l", w.String())
	p.clear()
	require.True(t, strings.HasSuffix(w.String(), "\r\x1b[K"))
	require.Equal(t, "50.0 MiB of 100.0 MiB, 50%", doneOf(50<<20, 100<<20))
	require.Equal(t, "1.0 KiB", doneOf(1024, 0))
}
