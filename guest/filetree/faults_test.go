package filetree_test

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
)

func TestLinksThatLeave(t *testing.T) {
	base := t.TempDir()
	src := base + "/src"
	write(t, src+"/a/b/f", "f", 0o644)
	for path, target := range map[string]string{
		"stays":            "a/b/f",
		"a/b/stays":        "../../a/b",
		"a/b/root":         "../..",
		"stays2":           "./a//b",
		"abs":              "/etc/passwd",
		"abs2":             src + "/a",
		"up":               "..",
		"a/up":             "../../x",
		"a/b/sideways":     "../../../src/a",
		"a/b/through":      "root/../x", // leaves behind the link root
		"a/b/through-real": "../b/../f", // does not, but nobody can know without looking
	} {
		require.NoError(t, os.Symlink(target, src+"/"+path))
	}
	dest := base + "/dest"
	notes := map[string]string{}
	res, err := apply(t, scan(t, src), dest, filetree.ApplyOptions{KeepInside: true, Note: func(e filetree.Entry) {
		notes[string(e.Path)] = e.Reason
		require.Equal(t, filetree.Skipped, e.Type)
	}})
	require.NoError(t, err)
	require.Equal(t, 4, res.Links)
	require.Equal(t, 7, res.Skipped)
	require.Len(t, notes, 7)
	require.Contains(t, notes["abs"], `leads out of the copied tree, to "/etc/passwd"`)
	for _, left := range []string{"abs", "abs2", "up", "a/up", "a/b/sideways", "a/b/through", "a/b/through-real"} {
		_, err := os.Lstat(dest + "/" + left)
		require.ErrorIs(t, err, fs.ErrNotExist, left)
	}
	// A sandbox's links are as they were.
	_, err = apply(t, scan(t, src), base+"/same", filetree.ApplyOptions{})
	require.NoError(t, err)
	require.Equal(t, tree(t, src), tree(t, base+"/same"))

	_, err = apply(t, scan(t, src+"/stays"), base+"/alone", filetree.ApplyOptions{KeepInside: true})
	require.ErrorContains(t, err, "name that instead")
}

func TestNotes(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/ok", "x", 0o644)
	write(t, dir+"/none", "x", 0o000)
	write(t, dir+"/locked/f", "x", 0o644)
	write(t, dir+"/setuid", "x", 0o644)
	require.NoError(t, os.Chmod(dir+"/setuid", 0o755|fs.ModeSetuid))
	require.NoError(t, os.Mkdir(dir+"/sticky", 0o755))
	require.NoError(t, os.Chmod(dir+"/sticky", 0o777|fs.ModeSticky|fs.ModeSetgid))
	require.NoError(t, os.Chmod(dir+"/locked", 0o000))
	t.Cleanup(func() { _ = os.Chmod(dir+"/locked", 0o755) })
	require.NoError(t, syscall.Mkfifo(dir+"/fifo", 0o644))
	m := scan(t, dir)
	require.Equal(t, map[string]string{"fifo": "a FIFO"}, m.notes(filetree.Skipped))
	require.Equal(t, map[string]string{"setuid": "without its setuid bit", "sticky": "without its setgid and sticky bit"}, m.notes(filetree.Altered))
	if os.Getuid() != 0 { // root reads everything
		require.Equal(t, map[string]string{"none": "permission denied", "locked": "it cannot be opened: permission denied"}, m.notes(filetree.Unread))
	}
	_, err := filetree.FindSource(dir + "/fifo")
	require.NoError(t, err)
	require.ErrorContains(t, filetree.Scan(t.Context(), dir+"/fifo", m, filetree.ScanOptions{}), "a FIFO")
}

func TestChangingFile(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/f"
	write(t, path, "one", 0o644)
	m := &memory{}
	reads := 0
	m.during = func(string) {
		if reads++; reads == 1 {
			write(t, path, "longer than before", 0o644)
		}
	}
	require.NoError(t, filetree.Scan(t.Context(), dir, m, filetree.ScanOptions{}))
	require.Equal(t, 2, reads, "read again")
	require.Equal(t, "longer than before", string(m.blobs[m.entries[1].SHA256]))

	m = &memory{during: func(string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString("more")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}}
	require.NoError(t, filetree.Scan(t.Context(), dir, m, filetree.ScanOptions{}))
	require.Contains(t, m.notes(filetree.Unread)["f"], "it changes while it is read")
	require.ErrorContains(t, filetree.Scan(t.Context(), path, m, filetree.ScanOptions{}), "it changes while it is read")
}

func TestDamagedContent(t *testing.T) {
	base := t.TempDir()
	write(t, base+"/src/f", strings.Repeat("content", 100_000), 0o644)
	write(t, base+"/dest/f", "before", 0o644)
	for name, damage := range map[string]func([]byte) []byte{
		"changed": func(b []byte) []byte { return append([]byte("C"), b[1:]...) },
		"short":   func(b []byte) []byte { return b[:len(b)-1] },
		"long":    func(b []byte) []byte { return append(slices.Clip(b), 'x') },
	} {
		m := scan(t, base+"/src/.")
		for d, b := range m.blobs {
			m.blobs[d] = damage(b)
		}
		_, err := apply(t, m, base+"/dest", filetree.ApplyOptions{})
		require.ErrorContains(t, err, "damaged", name)
		b, err := os.ReadFile(base + "/dest/f")
		require.NoError(t, err)
		require.Equal(t, "before", string(b), name)
	}
}

func TestCancelled(t *testing.T) {
	base := t.TempDir()
	odd(t, base+"/src")
	m := scan(t, base+"/src")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, filetree.Scan(ctx, base+"/src", m, filetree.ScanOptions{}), context.Canceled)
	_, err := filetree.Apply(ctx, base+"/dest", m.header, m, filetree.ApplyOptions{})
	require.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	m.next = 0
	_, err = filetree.Apply(ctx, base+"/dest", m.header, m, filetree.ApplyOptions{Progress: func(files int, _ int64) {
		if files > 0 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	requireNoTemp(t, base)
}

func TestDepth(t *testing.T) {
	base := t.TempDir()
	deep := base + "/src" + strings.Repeat("/d", filetree.MaxDepth-1)
	require.NoError(t, os.MkdirAll(deep, 0o755))
	m := scan(t, base+"/src")
	_, err := apply(t, m, base+"/dest", filetree.ApplyOptions{})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(deep+"/d", 0o755))
	require.ErrorIs(t, filetree.Scan(t.Context(), base+"/src", m, filetree.ScanOptions{}), filetree.ErrManifest)
}
