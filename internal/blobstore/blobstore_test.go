package blobstore_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/blobstore"
)

func open(t *testing.T) *blobstore.Store {
	t.Helper()
	s, err := blobstore.Open(filepath.Join(t.TempDir(), "deep", "blobs"))
	require.NoError(t, err)
	return s
}

func put(t *testing.T, s *blobstore.Store, content string) string {
	t.Helper()
	digest, size, err := s.Put(strings.NewReader(content))
	require.NoError(t, err)
	require.EqualValues(t, len(content), size)
	return digest
}

func get(s *blobstore.Store, digest string) (string, error) {
	r, err := s.Open(digest)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	return string(b), err
}

func names(t *testing.T, s *blobstore.Store) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir())
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestPutAndOpen(t *testing.T) {
	s := open(t)
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", put(t, s, "abc"))
	empty := put(t, s, "")
	large := make([]byte, 3<<20)
	_, _ = rand.Read(large)
	digest, size, err := s.Put(iotest.HalfReader(bytes.NewReader(large)))
	require.NoError(t, err)
	require.EqualValues(t, len(large), size)
	for d, want := range map[string]string{digest: string(large), empty: ""} {
		got, err := get(s, d)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Len(t, names(t, s), 3)
	info, err := os.Stat(s.Dir())
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(s.Dir(), digest))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
}

func TestAbsent(t *testing.T) {
	s := open(t)
	for _, d := range []string{strings.Repeat("0", 64), "", "../secret", strings.Repeat("0", 63) + "/"} {
		_, err := get(s, d)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

func TestFailedPutLeavesNothing(t *testing.T) {
	s := open(t)
	broken := errors.New("cut")
	_, _, err := s.Put(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	require.Empty(t, names(t, s))
}

func TestDamaged(t *testing.T) {
	s := open(t)
	d := put(t, s, "content")
	path := filepath.Join(s.Dir(), d)
	for _, damage := range []string{"contenT", "conten", "contents", ""} {
		require.NoError(t, os.WriteFile(path, []byte(damage), 0o600))
		_, err := get(s, d)
		require.ErrorIs(t, err, blobstore.ErrDamaged, damage)
		require.ErrorContains(t, err, path)
	}
	put(t, s, "content")
	got, err := get(s, d)
	require.NoError(t, err, "put again, it is whole")
	require.Equal(t, "content", got)
}

func TestPutAtOnce(t *testing.T) {
	s := open(t)
	content := strings.Repeat("x", 1<<20)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { put(t, s, content) })
	}
	wg.Wait()
	require.Len(t, names(t, s), 1)
}

func TestPrune(t *testing.T) {
	s := open(t)
	old, again, young := put(t, s, "old"), put(t, s, "again"), put(t, s, "young")
	temp := filepath.Join(s.Dir(), "put-123")
	other := filepath.Join(s.Dir(), "README")
	for _, path := range []string{temp, other} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	long := time.Now().Add(-25 * time.Hour)
	for _, path := range []string{temp, other, filepath.Join(s.Dir(), old), filepath.Join(s.Dir(), again)} {
		require.NoError(t, os.Chtimes(path, long, long))
	}
	put(t, s, "again")
	require.NoError(t, s.Prune(blobstore.Retention))
	require.ElementsMatch(t, []string{again, young, "README"}, names(t, s))
}
