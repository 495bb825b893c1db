package datadir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
)

func TestFullDiskLeavesNothingHalfMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.Mkdir(path, 0o700))
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=4k,mode=0700"); err != nil {
		t.Skipf("run it with CAP_SYS_ADMIN to see what a full disk does: mount: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(path, unix.MNT_DETACH)) })
	filler := filepath.Join(path, "filler")
	require.NoError(t, os.WriteFile(filler, make([]byte, 4096), 0o600))

	_, err := datadir.Open(path, datadir.Options{})
	require.ErrorContains(t, err, "disk or quota is full")
	require.Equal(t, []string{"filler"}, names(t, path))
	require.NoError(t, os.Remove(filler))
	open(t, path, datadir.Options{})
}
