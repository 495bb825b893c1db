//go:build linux

package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
)

const sparseSize = 2_000_000_000

// sparse makes a file of 2 GB that begins with head and ends with tail.
func sparse(t *testing.T, head, tail string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sparse")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString(head)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(tail), sparseSize-int64(len(tail)))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(sparseSize))
	return path
}

func TestReadSparse(t *testing.T) {
	lines := strings.Repeat("line\n", 3000)
	path := sparse(t, lines, "\n"+lines)
	tests := []struct {
		name            string
		req             guest.ReadFileRequest
		total, from, to int
	}{
		{"from the begin", guest.ReadFileRequest{MaxLines: 2000}, 6001, 1, 2000},
		{"over the hole", guest.ReadFileRequest{StartLine: 2500, MaxLines: 2000, MaxLineBytes: 100}, 6001, 2500, 4499},
		{"behind the hole", guest.ReadFileRequest{StartLine: 4000, MaxLines: 2000}, 6001, 4000, 5999},
		{"from the end", guest.ReadFileRequest{StartLine: -2000}, 6001, 4002, 6001},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Path = path
			begin := time.Now()
			got, err := files.Read("/", tt.req)
			require.NoError(t, err)
			require.Less(t, time.Since(begin), 2*time.Second)
			require.Equal(t, []int{tt.total, tt.from, tt.to}, []int{got.TotalLines, got.StartLine, got.EndLine})
			require.Empty(t, got.SHA256)
			require.EqualValues(t, sparseSize, got.Size)
		})
	}
	_, err := files.Read("/", guest.ReadFileRequest{Path: path, StartLine: 9000})
	fails(t, err, guest.CodeInvalid, "has 6001 lines")
	_, err = files.Read("/", guest.ReadFileRequest{Path: path, StartLine: -5000})
	fails(t, err, guest.CodeTooLarge, "tail -c")
}

func TestExpectedOfHugeFile(t *testing.T) {
	path := sparse(t, "", "")
	_, err := files.Write("/", guest.WriteFileRequest{Path: path, ExpectedSHA256: sum("")})
	fails(t, err, guest.CodeTooLarge, "64 MiB")
	got, err := files.Write("/", guest.WriteFileRequest{Path: path, Content: []byte("x"), Append: true})
	require.NoError(t, err)
	require.EqualValues(t, sparseSize+1, got.Size)
	require.Empty(t, got.SHA256)
}

// TestReadUncountable is a file of data, not holes, over the bounds.
func TestReadUncountable(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 300 MB: run without -short")
	}
	path := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(path)
	require.NoError(t, err)
	block := []byte(strings.Repeat(strings.Repeat("x", 999)+"\n", 1000))
	for range 300 {
		_, err := f.Write(block)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	got, err := files.Read("/", guest.ReadFileRequest{Path: path, StartLine: 1000, MaxLines: 2})
	require.NoError(t, err)
	require.Equal(t, []int{-1, 1000, 1001}, []int{got.TotalLines, got.StartLine, got.EndLine})
	require.True(t, got.Truncated)
	got, err = files.Read("/", guest.ReadFileRequest{Path: path, StartLine: -3, MaxLines: 2})
	require.NoError(t, err)
	require.Equal(t, []int{-1, -3, -2}, []int{got.TotalLines, got.StartLine, got.EndLine})
	got, err = files.Read("/", guest.ReadFileRequest{Path: path, StartLine: 299_999})
	require.NoError(t, err)
	require.Equal(t, []int{300_000, 299_999, 300_000}, []int{got.TotalLines, got.StartLine, got.EndLine})
}

// disk mounts a file system of 64 KiB.
func disk(t *testing.T) string {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k")
	if err != nil && os.Getenv("MCP_SANDBOX_REQUIRE") == "" {
		t.Skipf("needs to mount a tmpfs (%v): run on a machine or in a privileged container", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

func TestDiskFull(t *testing.T) {
	dir := disk(t)
	put(t, filepath.Join(dir, "f"), "old", 0o644)
	big := []byte(strings.Repeat("x", 100_000))
	for _, req := range []guest.WriteFileRequest{
		{Path: "f", Content: big},
		{Path: "f", Content: big, Append: true},
		{Path: "new/dir/f", Content: big},
		{Path: "new/dir/f", Content: big, Append: true},
	} {
		_, err := files.Write(dir, req)
		fails(t, err, guest.CodeExhausted, "no space is left", "df -h")
		require.Equal(t, "old", get(t, filepath.Join(dir, "f")))
		holds(t, dir, "f")
	}
	_, err := files.Edit(dir, guest.EditFileRequest{Path: "f", OldStr: "old", NewStr: string(big)})
	fails(t, err, guest.CodeExhausted, "no space is left")
	holds(t, dir, "f")
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := disk(t)
	put(t, filepath.Join(dir, "f"), "old", 0o644)
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	for _, path := range []string{"f", "new", "new/f"} {
		_, err := files.Write(dir, guest.WriteFileRequest{Path: path})
		fails(t, err, guest.CodePermission, "read-only", "/tmp")
	}
	_, err := files.Edit(dir, guest.EditFileRequest{Path: "f", OldStr: "old", NewStr: "new"})
	fails(t, err, guest.CodePermission, "read-only")
}

func TestMountPoint(t *testing.T) {
	// As /etc/hosts in a container is: it can be written, not replaced.
	dir := disk(t)
	path := put(t, filepath.Join(dir, "f"), "old", 0o644)
	require.NoError(t, unix.Mount(path, path, "", unix.MS_BIND, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(path, unix.MNT_DETACH)) })
	_, err := files.Write(dir, guest.WriteFileRequest{Path: "f"})
	fails(t, err, guest.CodePrecondition, "mount point", "run_command")
	holds(t, dir, "f")
	_, err = files.Write(dir, guest.WriteFileRequest{Path: "f", Content: []byte("er"), Append: true})
	require.NoError(t, err)
	require.Equal(t, "older", get(t, path))
}
