//go:build linux

package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
)

func perm(t *testing.T, path string) os.FileMode {
	t.Helper()
	st, err := os.Stat(path)
	require.NoError(t, err)
	return st.Mode() & (os.ModePerm | os.ModeSetuid | os.ModeSetgid | os.ModeSticky)
}

func TestWrite(t *testing.T) {
	const old = os.FileMode(0o600)
	tests := []struct {
		name string
		was  string // "-": no file
		mode os.FileMode
		req  guest.WriteFileRequest
		want string
		perm os.FileMode
	}{
		{"new", "-", 0, guest.WriteFileRequest{Content: []byte("a\x00\xff")}, "a\x00\xff", 0o644},
		{"new, empty", "-", 0, guest.WriteFileRequest{}, "", 0o644},
		{"new with mode", "-", 0, guest.WriteFileRequest{Mode: 0o777}, "", 0o777},
		{"replace keeps the mode", "old", 0o751, guest.WriteFileRequest{Content: []byte("new")}, "new", 0o751},
		{"replace with mode", "old", old, guest.WriteFileRequest{Content: []byte("new"), Mode: 0o755}, "new", 0o755},
		{"setuid goes", "old", 0o755 | os.ModeSetuid, guest.WriteFileRequest{Content: []byte("new")}, "new", 0o755},
		{"expected", "old", old, guest.WriteFileRequest{Content: []byte("new"), ExpectedSHA256: sum("old")}, "new", old},
		{"expected in upper case", "old", old, guest.WriteFileRequest{ExpectedSHA256: strings.ToUpper(sum("old"))}, "", old},
		{"append", "old", old, guest.WriteFileRequest{Content: []byte("new"), Append: true}, "oldnew", old},
		{"append nothing", "old", old, guest.WriteFileRequest{Append: true}, "old", old},
		{"append to none", "-", 0, guest.WriteFileRequest{Content: []byte("new"), Append: true}, "new", 0o644},
		{"append with mode", "old", old, guest.WriteFileRequest{Append: true, Mode: 0o640}, "old", 0o640},
		{"append, expected", "old", old, guest.WriteFileRequest{Content: []byte("x"), Append: true, ExpectedSHA256: sum("old")}, "oldx", old},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			umask(t, 0o077)
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			if tt.was != "-" {
				put(t, path, tt.was, tt.mode)
			}
			tt.req.Path = "f"
			got, err := files.Write(dir, tt.req)
			require.NoError(t, err)
			require.Equal(t, guest.WriteResult{
				Path: path, Size: int64(len(tt.want)), SHA256: sum(tt.want), Created: tt.was == "-",
			}, got)
			require.Equal(t, tt.want, get(t, path))
			require.Equal(t, tt.perm, perm(t, path))
			holds(t, dir, "f")
		})
	}
}

func umask(t *testing.T, mask int) {
	t.Helper()
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}

func TestWriteMakesParents(t *testing.T) {
	for _, appending := range []bool{false, true} {
		umask(t, 0o077)
		dir := t.TempDir()
		_, err := files.Write(dir, guest.WriteFileRequest{Path: "a/b//c/f", Content: []byte("x"), Append: appending})
		require.NoError(t, err)
		require.Equal(t, "x", get(t, filepath.Join(dir, "a/b/c/f")))
		require.Equal(t, os.FileMode(0o755), perm(t, filepath.Join(dir, "a")))
		require.Equal(t, os.FileMode(0o755), perm(t, filepath.Join(dir, "a/b/c")))
	}
}

func TestWriteThroughLinks(t *testing.T) {
	for _, appending := range []bool{false, true} {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
		put(t, filepath.Join(dir, "sub", "f"), "", 0o600)
		require.NoError(t, os.Symlink("sub/f", filepath.Join(dir, "one")))
		require.NoError(t, os.Symlink("one", filepath.Join(dir, "two")))
		require.NoError(t, os.Symlink("sub/later", filepath.Join(dir, "dangling")))

		got, err := files.Write(dir, guest.WriteFileRequest{Path: "two", Content: []byte("x"), Append: appending})
		require.NoError(t, err)
		require.Equal(t, filepath.Join(dir, "sub", "f"), got.Path)
		require.False(t, got.Created)
		require.Equal(t, "x", get(t, filepath.Join(dir, "sub", "f")))
		require.Equal(t, os.FileMode(0o600), perm(t, filepath.Join(dir, "sub", "f")))

		got, err = files.Write(dir, guest.WriteFileRequest{Path: "dangling", Content: []byte("y"), Append: appending})
		require.NoError(t, err)
		require.True(t, got.Created)
		require.Equal(t, "y", get(t, filepath.Join(dir, "sub", "later")))
		for _, link := range []string{"one", "two", "dangling"} {
			_, err := os.Readlink(filepath.Join(dir, link))
			require.NoError(t, err, "the link stays")
		}
	}
}

func TestWriteErrors(t *testing.T) {
	tests := []struct {
		name  string
		req   guest.WriteFileRequest
		code  guest.Code
		parts []string
	}{
		{"directory", guest.WriteFileRequest{Path: "dir"}, guest.CodePrecondition, []string{"is a directory"}},
		{"link to a directory", guest.WriteFileRequest{Path: "dirlink"}, guest.CodePrecondition, []string{"is a directory"}},
		{"dot", guest.WriteFileRequest{Path: "dir/.."}, guest.CodePrecondition, []string{"is a directory"}},
		{"slash", guest.WriteFileRequest{Path: "dir/"}, guest.CodeInvalid, []string{"slash"}},
		{"FIFO", guest.WriteFileRequest{Path: "fifo"}, guest.CodePrecondition, []string{"is a FIFO"}},
		{"device", guest.WriteFileRequest{Path: "/dev/null"}, guest.CodePrecondition, []string{"is a character device"}},
		{"circular link", guest.WriteFileRequest{Path: "loop"}, guest.CodePrecondition, []string{"circle"}},
		{"file as directory", guest.WriteFileRequest{Path: "f/x"}, guest.CodePrecondition, []string{"no directory"}},
		{"file as grandparent", guest.WriteFileRequest{Path: "f/x/y"}, guest.CodePrecondition, []string{"no directory"}},
		{"under a dangling link", guest.WriteFileRequest{Path: "dangling/x"}, guest.CodeNotFound, []string{"is a link to nowhere"}},
		{"long name", guest.WriteFileRequest{Path: "new/" + strings.Repeat("x", 256)}, guest.CodeInvalid, []string{"too long"}},
		{"too large", guest.WriteFileRequest{Path: "n", Content: make([]byte, guest.MaxInline+1)}, guest.CodeTooLarge, []string{"append"}},
		{"setuid", guest.WriteFileRequest{Path: "n", Mode: 0o4755}, guest.CodeInvalid, []string{"mode 4755"}},
		{"malformed hash", guest.WriteFileRequest{Path: "f", ExpectedSHA256: "abc"}, guest.CodeInvalid, []string{"64 hexadecimal"}},
		{"changed", guest.WriteFileRequest{Path: "f", ExpectedSHA256: sum("old")}, guest.CodeConflict, []string{sum("now"), "read it again"}},
		{"changed, expected empty", guest.WriteFileRequest{Path: "f", ExpectedSHA256: sum("")}, guest.CodeConflict, []string{sum("now")}},
		{"missing", guest.WriteFileRequest{Path: "n", ExpectedSHA256: sum("")}, guest.CodeConflict, []string{"does not exist"}},
		{"missing parents", guest.WriteFileRequest{Path: "new/x/n", ExpectedSHA256: sum("")}, guest.CodeConflict, []string{"does not exist"}},
		{"empty path", guest.WriteFileRequest{}, guest.CodeInvalid, []string{"empty"}},
	}
	for _, tt := range tests {
		for _, appending := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				dir := t.TempDir()
				put(t, filepath.Join(dir, "f"), "now", 0o644)
				require.NoError(t, os.Mkdir(filepath.Join(dir, "dir"), 0o755))
				require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
				require.NoError(t, os.Symlink("dir", filepath.Join(dir, "dirlink")))
				require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
				require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))

				tt.req.Append = appending
				_, err := files.Write(dir, tt.req)
				fails(t, err, tt.code, tt.parts...)
				require.Equal(t, "now", get(t, filepath.Join(dir, "f")))
				holds(t, dir, "f", "dir", "fifo", "dirlink", "loop", "dangling")
			})
		}
	}
}

func TestWriteBreaksHardLinks(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "f"), "old", 0o644)
	require.NoError(t, os.Link(filepath.Join(dir, "f"), filepath.Join(dir, "g")))
	_, err := files.Write(dir, guest.WriteFileRequest{Path: "f", Content: []byte("new")})
	require.NoError(t, err)
	require.Equal(t, "old", get(t, filepath.Join(dir, "g")))
}
