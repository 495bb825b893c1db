//go:build linux

package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
)

func read(path string) files.Request {
	return files.Request{Op: files.OpRead, Read: &guest.ReadFileRequest{Path: path}}
}

func write(path string) files.Request {
	return files.Request{Op: files.OpWrite, Write: &guest.WriteFileRequest{Path: path, Content: []byte("x")}}
}

func appendTo(path string) files.Request {
	req := write(path)
	req.Write.Append = true
	return req
}

func edit(path string) files.Request {
	return files.Request{Op: files.OpEdit, Edit: &guest.EditFileRequest{Path: path, OldStr: "secret", NewStr: "x"}}
}

func TestAsUserOwnership(t *testing.T) {
	dir := userDir(t)
	res := asUser(t, files.Request{Op: files.OpWrite, Home: dir, Write: &guest.WriteFileRequest{Path: "a/b/f", Content: []byte("x")}})
	require.Nil(t, res.Error)
	require.True(t, res.Write.Created)
	for _, p := range []string{"a", "a/b", "a/b/f"} {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(dir, p), &st))
		require.Equal(t, []uint32{sandboxUID, sandboxUID}, []uint32{st.Uid, st.Gid}, p)
	}
}

func TestAsUserRefused(t *testing.T) {
	const nobodys = "/etc/mcp-sandbox-test"
	tests := []struct {
		name string
		op   func(path string) files.Request
		path string // "" is a planted link
		link string // what the link leads to
		part string
	}{
		{"read", read, "/etc/shadow", "", "may not do that"},
		{"read through a link", read, "", "/etc/shadow", "may not do that"},
		{"read the environment of PID 1", read, "", "/proc/1/environ", "may not do that"},
		{"write", write, "/etc/passwd", "", "/etc/passwd is read-only for the sandbox user"},
		{"write through a link", write, "", "/etc/shadow", "/etc/shadow is read-only for the sandbox user"},
		{"append through a link", appendTo, "", "/etc/shadow", "read-only"},
		{"edit through a link", edit, "", "/etc/shadow", "read-only"},
		{"a new file", write, nobodys, "", "may not create files in /etc"},
		{"a new file, appended to", appendTo, nobodys, "", "may not do that"},
		{"a new directory", write, nobodys + "/f", "", "may not do that"},
		{"a new file through a link", write, "", nobodys, "may not create files in /etc"},
		{"a new file through a link, appended to", appendTo, "", nobodys, "may not do that"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := userDir(t)
			if tt.path == "" {
				tt.path = dir + "/link"
				require.NoError(t, os.Symlink(tt.link, tt.path))
			}
			refused(t, tt.op(tt.path), tt.part)
			require.NoFileExists(t, nobodys)
		})
	}
}

func refused(t *testing.T, req files.Request, part string) {
	t.Helper()
	res := asUser(t, req)
	require.NotNil(t, res.Error)
	require.Equal(t, guest.CodePermission, res.Error.Code, res.Error.Message)
	require.Contains(t, res.Error.Message, part)
}

func TestAsUserReadOnly(t *testing.T) {
	dir := userDir(t)
	path := put(t, dir+"/f", "secret", 0o444)
	own(t, path)
	for _, op := range []func(string) files.Request{write, appendTo, edit} {
		refused(t, op(path), "chmod u+w")
	}
	require.NoError(t, os.Chmod(path, 0o644))
	require.NoError(t, os.Chown(dir, 0, 0)) // the file may be written, not replaced
	refused(t, write(path), "which replacing a file in one step needs")
	refused(t, edit(path), "which replacing a file in one step needs")
	require.Equal(t, "secret", get(t, path))

	req := appendTo(put(t, dir+"/foreign", "", 0o666))
	req.Write.Mode = 0o600
	refused(t, req, "may not do that")
	require.Empty(t, get(t, dir+"/foreign"))
}

func own(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.Chown(path, sandboxUID, sandboxUID))
}

// TestAsUserMayWrite has what permissions allow, though not to all.
func TestAsUserMayWrite(t *testing.T) {
	dir := userDir(t)
	require.Nil(t, asUser(t, appendTo(put(t, dir+"/log", "a", 0o622))).Error) // write-only for others
	require.Equal(t, "ax", get(t, dir+"/log"))

	res := asUser(t, write(put(t, dir+"/shared", "a", 0o666))) // becomes the user's own
	require.Nil(t, res.Error)
	require.Equal(t, os.FileMode(0o666), perm(t, dir+"/shared"))

	own(t, put(t, dir+"/only", "a", 0o200)) // not readable: no hash of what is appended to
	res = asUser(t, appendTo(dir+"/only"))
	require.Nil(t, res.Error)
	require.Empty(t, res.Write.SHA256)
	require.EqualValues(t, 2, res.Write.Size)
}

// TestAsUserRaced swaps a link between an own and a foreign file while
// requests go through it.
func TestAsUserRaced(t *testing.T) {
	dir := userDir(t)
	foreign := put(t, filepath.Join(t.TempDir(), "f"), "secret", 0o600)
	require.NoError(t, os.Chmod(filepath.Dir(foreign), 0o711))
	mine := put(t, dir+"/mine", "mine", 0o644)
	own(t, mine)
	stop := make(chan struct{})
	var swap errgroup.Group
	swap.Go(func() error {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return nil
			default:
			}
			target := []string{mine, foreign}[i%2]
			if err := os.Symlink(target, dir+"/next"); err != nil {
				return err
			}
			if err := os.Rename(dir+"/next", dir+"/link"); err != nil {
				return err
			}
		}
	})
	for range 25 {
		if res := asUser(t, read(dir+"/link")); res.Read != nil {
			require.NotContains(t, string(res.Read.Content), "secret")
		}
		asUser(t, write(dir+"/link"))
		asUser(t, appendTo(dir+"/link"))
	}
	close(stop)
	require.NoError(t, swap.Wait())
	require.Equal(t, "secret", get(t, foreign))
}
