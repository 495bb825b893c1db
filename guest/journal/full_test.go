package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
)

// On a full disk nothing begins, and what has begun can still end.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("needs to mount a small tmpfs: run the tests as root (%v)", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	path, filler := filepath.Join(dir, "journal"), filepath.Join(dir, "filler")
	j := open(t, path)
	begin(t, j, "begun", "run")
	fill(t, filler)

	outcome := make([]byte, 64<<10)
	for i := 0; ; i++ {
		id := string(rune('a' + i))
		_, fresh, err := j.Begin(journal.Key{ID: id, Op: "edit_file"}, nil)
		if errors.Is(err, journal.ErrFull) {
			break
		}
		require.NoError(t, err)
		require.True(t, fresh)
		require.NoError(t, j.End(id, outcome))
		require.Less(t, i, 26, "the disk is full")
	}
	_, err := j.Refuse("x")
	require.ErrorIs(t, err, journal.ErrFull)
	_, known := j.Lookup("x")
	require.False(t, known)
	require.NoError(t, j.End("begun", "outcome"))

	j = reopen(t, j, path)
	e, _ := j.Lookup("begun")
	require.Equal(t, journal.Ended, e.State)
	require.NoError(t, os.Remove(filler))
	begin(t, j, "x", "run")
}

func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
}
