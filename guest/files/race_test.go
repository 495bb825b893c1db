//go:build linux

package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
)

func TestReadersSeeOldOrNew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	contents := []string{strings.Repeat("a", 200_000), strings.Repeat("b", 200_000)}
	put(t, path, contents[0], 0o604)

	var done atomic.Bool
	var readers errgroup.Group
	for range 2 {
		readers.Go(func() error {
			for !done.Load() {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				if s := string(b); s != contents[0] && s != contents[1] {
					t.Errorf("%d bytes, first %q, last %q", len(s), s[:min(1, len(s))], s[max(0, len(s)-1):])
				}
			}
			return nil
		})
	}
	for i := range 300 {
		if i%3 == 0 { // an edit is a write too
			_, err := files.Edit(dir, guest.EditFileRequest{Path: "f", OldStr: contents[i%2], NewStr: contents[(i+1)%2]})
			require.NoError(t, err)
			continue
		}
		_, err := files.Write(dir, guest.WriteFileRequest{Path: "f", Content: []byte(contents[(i+1)%2])})
		require.NoError(t, err)
	}
	done.Store(true)
	require.NoError(t, readers.Wait())
	require.Equal(t, os.FileMode(0o604), perm(t, path))
	holds(t, dir, "f")
}

func TestAppendsDoNotMix(t *testing.T) {
	dir := t.TempDir()
	var writers errgroup.Group
	const each = 50
	for _, c := range []string{"a", "b", "c"} {
		writers.Go(func() error {
			for range each {
				_, err := files.Write(dir, guest.WriteFileRequest{Path: "f", Content: []byte(strings.Repeat(c, 999) + "\n"), Append: true})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, writers.Wait())
	content := get(t, filepath.Join(dir, "f"))
	require.Len(t, content, 3*each*1000)
	for l := range strings.Lines(content) {
		require.Equal(t, strings.Repeat(l[:1], 999)+"\n", l)
	}
}

func TestUnconditionalWritesDoNotConflict(t *testing.T) {
	dir := t.TempDir()
	var writers errgroup.Group
	for _, c := range []string{"a", "b", "c"} {
		writers.Go(func() error {
			for range 50 {
				if _, err := files.Write(dir, guest.WriteFileRequest{Path: "d/f", Content: []byte(c)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, writers.Wait())
	holds(t, filepath.Join(dir, "d"), "f")
}
