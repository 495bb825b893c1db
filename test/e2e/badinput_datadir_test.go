package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// A data dir that is damaged or not private is refused as it is. Put right again,
// it has lost nothing.
func TestDamagedDataDir(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	id := s.Client().StartSession(t, nil)
	s.Client().Run(t, id, "echo here > kept")
	serve := []string{"serve", "--data-dir", s.DataDir, "--listen", "127.0.0.1:0", "--temporal-ui", "off"}

	t.Run("a second server", func(t *testing.T) {
		refuses(t, 1, nil, serve, s.DataDir, "pid", "--data-dir")
		require.Equal(t, "here\n", s.Client().Run(t, id, "cat kept").Str("stdout"), "the first one goes on")
	})
	s.Stop()
	for name, says := range map[string]string{"temporal.db": "damaged", "installation.json": "damaged", "token": "damaged"} {
		for kind, garbage := range map[string][]byte{"garbage": []byte("garbage, and no secret"), "nothing": nil} {
			t.Run(name+" is "+kind, func(t *testing.T) {
				path := filepath.Join(s.DataDir, name)
				good, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, garbage, 0o600))
				refuses(t, 1, nil, serve, path, says)
				after, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, string(garbage), string(after), "left as it was found")
				require.NoError(t, os.WriteFile(path, good, 0o600))
			})
		}
	}
	t.Run("open to others", func(t *testing.T) {
		require.NoError(t, os.Chmod(s.DataDir, 0o755))
		refuses(t, 1, nil, serve, "chmod 700", s.DataDir)
		require.NoError(t, os.Chmod(s.DataDir, 0o700))
	})
	s.Launch()
	require.Equal(t, "here\n", s.Client().Run(t, id, "cat kept").Str("stdout"))
}

// A disk that is full when the server starts, and one that fills up under it.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a small file system of its own")
	}
	harness.Docker(t)
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(small, unix.MNT_DETACH)) })
	dir := filepath.Join(small, "data")
	serve := []string{"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--temporal-ui", "off", "--default-image", harness.TestImage}
	refuses(t, 1, nil, serve, "full")

	require.NoError(t, unix.Mount("tmpfs", small, "tmpfs", unix.MS_REMOUNT, "size=256m"))
	p := harness.StartProcess(t, nil, serve...)
	c := p.Client(dir)
	id := c.StartSession(t, nil)
	require.Equal(t, "ok\n", c.Run(t, id, "echo ok").Str("stdout"), "usable once there is space")
	handle := c.Run(t, id, "echo before; exec sleep 600", harness.Args{"wait_seconds": 0}).Str("command_id")

	filler, err := os.Create(filepath.Join(small, "filler"))
	require.NoError(t, err)
	_, err = filler.ReadFrom(endless{})
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, filler.Close())
	write := harness.Args{"session_id": id, "path": "log", "content": "x\n", "append": true}
	soon, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	r, err := c.Try(soon, "full", "write_file", write)
	t.Logf("on a full disk: %s %v", r.Text, err)
	require.NoError(t, os.Remove(filler.Name()))
	r = c.Until(t, "full", "write_file", write)
	require.False(t, r.IsError, r.Text)
	require.Equal(t, "x\n", c.Run(t, id, "cat log").Str("stdout"), "once")
	require.Equal(t, "running", c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": handle}).Str("status"))
}

// endless is a source of zeros.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
