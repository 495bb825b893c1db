package filetree_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
)

// memory keeps a tree: it is a Sink, and its Contents.
type memory struct {
	header  filetree.Header
	entries []filetree.Entry
	blobs   map[string][]byte
	during  func(name string) // called before a content is read to its end
	next    int
	opened  int
}

func (m *memory) Content(r io.Reader) (string, int64, error) {
	if m.during != nil {
		m.during("")
	}
	b, err := io.ReadAll(r)
	sum := sha256.Sum256(b)
	digest := hex.EncodeToString(sum[:])
	if m.blobs == nil {
		m.blobs = map[string][]byte{}
	}
	m.blobs[digest] = b
	return digest, int64(len(b)), err
}

func (m *memory) Entry(e filetree.Entry) error {
	m.entries = append(m.entries, e)
	return nil
}

func (m *memory) Next() (filetree.Entry, error) {
	if m.next == len(m.entries) {
		return filetree.Entry{}, io.EOF
	}
	m.next++
	return m.entries[m.next-1], nil
}

func (m *memory) Open(e filetree.Entry) (io.ReadCloser, error) {
	m.opened++
	return io.NopCloser(bytes.NewReader(m.blobs[e.SHA256])), nil
}

func (m *memory) notes(of filetree.Type) map[string]string {
	found := map[string]string{}
	for _, e := range m.entries {
		if e.Type == of {
			found[string(e.Path)] = e.Reason
		}
	}
	return found
}

// scan scans a path as a command line has it.
func scan(t *testing.T, path string) *memory {
	t.Helper()
	src, err := filetree.FindSource(path)
	require.NoError(t, err)
	m := &memory{header: filetree.Header{Version: 1, Name: src.Name}}
	require.NoError(t, filetree.Scan(t.Context(), src.Path, m, filetree.ScanOptions{}))
	return m
}

func apply(t *testing.T, m *memory, dest string, opts filetree.ApplyOptions) (filetree.Result, error) {
	t.Helper()
	m.next = 0
	res, err := filetree.Apply(t.Context(), dest, m.header, m, opts)
	requireNoTemp(t, filepath.Dir(strings.TrimRight(dest, "/")))
	return res, err
}

func requireNoTemp(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		require.NotContains(t, path, ".mcp-sandbox-")
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	}))
}

func write(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	require.NoError(t, os.Chmod(path, mode))
}

// tree describes what is in a folder, a line for each.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, _ := filepath.Rel(dir, path)
		info, err := os.Lstat(path)
		require.NoError(t, err)
		line := fmt.Sprintf("%q %s", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			line += fmt.Sprintf(" %d %x %d", info.ModTime().UnixNano(), sha256.Sum256(b), len(b))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			require.NoError(t, err)
			line += " -> " + target
		default:
			line += fmt.Sprintf(" %d", info.ModTime().UnixNano())
		}
		lines = append(lines, line)
		return nil
	}))
	return strings.Join(lines, "\n")
}

// odd makes a tree with everything that is kept.
func odd(t *testing.T, dir string) {
	t.Helper()
	write(t, dir+"/empty", "", 0o644)
	write(t, dir+"/run.sh", "#!/bin/sh\n", 0o755)
	write(t, dir+"/secret", "x", 0o600)
	write(t, dir+"/new\nline", "n", 0o644)
	write(t, dir+"/not-\xff-utf8/\xfe", "bytes", 0o640)
	write(t, dir+"/a/b/c/d/e/deep", "deep", 0o444)
	write(t, dir+"/a.txt", "sorted after a/ by bytes of names", 0o644)
	write(t, dir+"/.mcp/hidden", "h", 0o644)
	require.NoError(t, os.MkdirAll(dir+"/folder/empty", 0o750))
	require.NoError(t, os.Symlink("a/b", dir+"/inside"))
	require.NoError(t, os.Symlink("../../run.sh", dir+"/a/b/up"))
	require.NoError(t, os.Symlink("nowhere", dir+"/dangling"))
	write(t, dir+"/one", "linked", 0o644)
	require.NoError(t, os.Link(dir+"/one", dir+"/two"))
	sparse, err := os.Create(dir + "/sparse")
	require.NoError(t, err)
	_, err = sparse.WriteAt([]byte("end"), 5<<20)
	require.NoError(t, err)
	require.NoError(t, sparse.Truncate(8<<20))
	require.NoError(t, sparse.Close())
	long := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	require.NoError(t, os.Chtimes(dir+"/run.sh", long, long))
	require.NoError(t, os.Chtimes(dir+"/a/b", long, long))
	require.NoError(t, os.Chmod(dir+"/a/b/c", 0o555))
	t.Cleanup(func() { _ = os.Chmod(dir+"/a/b/c", 0o755) })
}

func TestRoundTrip(t *testing.T) {
	base := t.TempDir()
	src := filepath.Join(base, "src")
	odd(t, src)
	m := scan(t, src)
	require.Equal(t, "src", string(m.header.Name))

	// Through a manifest, as it travels.
	var file bytes.Buffer
	w, err := filetree.NewManifestWriter(&file, m.header)
	require.NoError(t, err)
	for _, e := range m.entries {
		require.NoError(t, w.Write(e), "%v", e)
	}
	require.NoError(t, w.Flush())
	r, err := filetree.NewManifestReader(&file)
	require.NoError(t, err)
	require.Equal(t, m.header, r.Header)
	for _, want := range m.entries {
		got, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF)

	dest := filepath.Join(base, "dest")
	t.Cleanup(func() { _ = os.Chmod(dest+"/a/b/c", 0o755) })
	res, err := apply(t, m, dest, filetree.ApplyOptions{KeepInside: true, KeepSame: true})
	require.NoError(t, err)
	require.Equal(t, dest, res.Path)
	require.Equal(t, w.Counts(), res.Counts)
	require.Equal(t, tree(t, src), tree(t, dest))
	info, err := os.Stat(dest + "/sparse")
	require.NoError(t, err)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		require.Less(t, st.Blocks*512, int64(2<<20), "holes stay holes")
	}

	// Again: the same, and nothing is written.
	m.opened, m.header.Name = 0, ""
	res, err = apply(t, m, dest, filetree.ApplyOptions{KeepInside: true, KeepSame: true})
	require.NoError(t, err)
	require.Equal(t, res.Files, res.Unchanged)
	require.Zero(t, m.opened)
	require.Equal(t, tree(t, src), tree(t, dest))

	// And without a look at what is there.
	res, err = apply(t, m, dest, filetree.ApplyOptions{})
	require.NoError(t, err)
	require.Zero(t, res.Unchanged)
	_, want, _ := strings.Cut(tree(t, src), "\n")
	_, got, _ := strings.Cut(tree(t, dest), "\n")
	require.Equal(t, want, got, "all but the root, which was there")
}

// The rules of cp: what lands where.
func TestPlaces(t *testing.T) {
	for _, row := range []struct{ src, dest, want string }{
		{"dir", "there", "there/dir/f"},
		{"dir/", "there/", "there/dir/f"},
		{"dir/.", "there", "there/f"},
		{"dir", "new", "new/f"},
		{"dir", "new/", "new/f"},
		{"dir/.", "new/deep/er", "new/deep/er/f"},
		{"dir", "link", "there/dir/f"},
		{"dir/.", "link", "there/f"},
		{"linkdir/", "new", "new/f"},
		{"dir/f", "there", "there/f"},
		{"dir/f", "there/", "there/f"},
		{"dir/f", "new", "new"},
		{"dir/f", "new/", "new/f"},
		{"dir/f", "new/deep/g", "new/deep/g"},
		{"dir/f", "old", "old"},
		{"dir/f", "linkold", "old"},
	} {
		t.Run(row.src+" to "+row.dest, func(t *testing.T) {
			base := t.TempDir()
			write(t, base+"/dir/f", "content", 0o644)
			write(t, base+"/old", "old", 0o600)
			require.NoError(t, os.Mkdir(base+"/there", 0o711))
			require.NoError(t, os.Symlink("there", base+"/link"))
			require.NoError(t, os.Symlink("old", base+"/linkold"))
			require.NoError(t, os.Symlink("dir", base+"/linkdir"))
			_, err := apply(t, scan(t, base+"/"+row.src), base+"/"+row.dest, filetree.ApplyOptions{})
			require.NoError(t, err)
			b, err := os.ReadFile(base + "/" + row.want)
			require.NoError(t, err)
			require.Equal(t, "content", string(b))
			info, err := os.Stat(base + "/there")
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o711), info.Mode().Perm(), "a folder that was there stays as it was")
		})
	}
}

func TestPlacesThatAreNone(t *testing.T) {
	for _, row := range []struct{ src, dest, want string }{
		{"dir", "old", "not a directory"},
		{"dir", "old/x", "not a directory"},
		{"dir/f", "old/", "not a directory"},
		{"dir", "has", "has/dir: not a directory"},
		{"dir/f", "folder", "folder/f: is a directory"},
	} {
		t.Run(row.src+" to "+row.dest, func(t *testing.T) {
			base := t.TempDir()
			write(t, base+"/dir/f", "content", 0o644)
			write(t, base+"/old", "old", 0o644)
			write(t, base+"/has/dir", "a file", 0o644)
			write(t, base+"/folder/f/x", "", 0o644)
			_, err := apply(t, scan(t, base+"/"+row.src), base+"/"+row.dest, filetree.ApplyOptions{})
			require.ErrorContains(t, err, row.want)
			b, err := os.ReadFile(base + "/old")
			require.NoError(t, err)
			require.Equal(t, "old", string(b))
		})
	}
	for _, path := range []string{"none", "f/", "f/."} {
		base := t.TempDir()
		write(t, base+"/f", "", 0o644)
		_, err := filetree.FindSource(base + "/" + path)
		require.Error(t, err, path)
	}
}

// What a sandbox plants in a destination leads nowhere else.
func TestPlantedLinks(t *testing.T) {
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	write(t, outside+"/f", "untouched", 0o600)
	write(t, base+"/src/d/f", "new", 0o644)
	write(t, base+"/src/g", "new", 0o644)
	m := scan(t, base+"/src/.")
	for name, plant := range map[string]func(dest string){
		"a folder is a link outside": func(dest string) { require.NoError(t, os.Symlink(outside, dest+"/d")) },
		"a folder is a link inside": func(dest string) {
			write(t, dest+"/other/f", "untouched", 0o600)
			require.NoError(t, os.Symlink("other", dest+"/d"))
		},
		"a file is a link outside": func(dest string) { require.NoError(t, os.Symlink(outside+"/f", dest+"/g")) },
		"a file is a FIFO":         func(dest string) { require.NoError(t, syscall.Mkfifo(dest+"/g", 0o600)) },
		"a file cannot be written": func(dest string) { write(t, dest+"/g", "", 0o000) },
	} {
		t.Run(name, func(t *testing.T) {
			dest := t.TempDir()
			plant(dest)
			_, err := apply(t, m, dest, filetree.ApplyOptions{KeepInside: true, KeepSame: true})
			if strings.Contains(name, "folder") {
				require.ErrorContains(t, err, "d: not a directory")
			} else {
				require.NoError(t, err)
				b, err := os.ReadFile(dest + "/g")
				require.NoError(t, err)
				require.Equal(t, "new", string(b))
			}
			for _, untouched := range []string{outside + "/f", dest + "/other/f"} {
				if b, err := os.ReadFile(untouched); err == nil {
					require.Equal(t, "untouched", string(b))
				}
			}
		})
	}
}

// A folder that is swapped for a link while the tree is made.
func TestSwappedFolder(t *testing.T) {
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	require.NoError(t, os.Mkdir(outside, 0o755))
	for i := range 50 {
		write(t, fmt.Sprintf("%s/src/d%02d/f", base, i), "new", 0o644)
	}
	m := scan(t, base+"/src/.")
	dest := filepath.Join(base, "dest")
	require.NoError(t, os.Mkdir(dest, 0o755))
	swapping := &swapper{memory: m, swap: func(n int) {
		// In the folder at hand, and in the one that comes next.
		for _, d := range []int{n - 1, n} {
			dir := fmt.Sprintf("%s/d%02d", dest, d)
			_ = os.Rename(dir, dir+".moved")
			_ = os.Symlink(outside, dir)
		}
	}}
	_, err := filetree.Apply(t.Context(), dest, m.header, swapping, filetree.ApplyOptions{})
	require.Error(t, err)
	list, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, list)
}

type swapper struct {
	*memory
	swap func(n int)
}

func (s *swapper) Open(e filetree.Entry) (io.ReadCloser, error) {
	r, err := s.memory.Open(e)
	s.swap(s.opened)
	return r, err
}
