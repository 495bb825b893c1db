package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/internal/access"
)

func TestTokenNew(t *testing.T) {
	code, stdout, stderr := operate(t, nil, "token", "new", "alice")
	require.Equal(t, 0, code)
	require.Regexp(t, `^[A-Za-z0-9_-]{43}\n$`, stdout)
	require.Regexp(t, `^alice:[0-9a-f]{64}\n$`, stderr)
}

// What the command prints and writes is what a server takes.
func TestTokenNewFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	var tokens sync.Map
	var wg sync.WaitGroup
	for i := range 20 { // at once: each adds its own line
		wg.Go(func() {
			owner := fmt.Sprintf("owner%d", i)
			code, stdout, stderr := operate(t, nil, "token", "new", owner, "--file", file)
			if code != 0 {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			tokens.Store(strings.TrimSpace(stdout), owner)
		})
	}
	wg.Wait()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	auth, err := access.OpenTokenFile(file, access.Options{})
	require.NoError(t, err)
	n := 0
	tokens.Range(func(token, want any) bool {
		owner, ok := auth.Owner(token.(string))
		require.True(t, ok)
		require.Equal(t, want, owner)
		n++
		return true
	})
	require.Equal(t, 20, n)
}

func TestTokenFileIsLeftAsItWas(t *testing.T) {
	dir := t.TempDir()
	add := func(file string) (int, string) {
		code, stdout, stderr := operate(t, nil, "token", "new", "alice", "--file", file)
		require.Equal(t, code == 0, stdout != "", "no token without its line")
		return code, stderr
	}
	t.Run("no newline at its end", func(t *testing.T) {
		file := filepath.Join(dir, "open")
		require.NoError(t, os.WriteFile(file, []byte("# mine"), 0o640))
		code, _ := add(file)
		require.Equal(t, 0, code)
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Regexp(t, `^# mine\nalice:[0-9a-f]{64}\n$`, string(b))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o640), info.Mode())
	})
	t.Run("others may write it", func(t *testing.T) {
		file := filepath.Join(dir, "wide open")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, os.Chmod(file, 0o666))
		code, stderr := add(file)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "run: chmod go-w '"+file+"'")
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Empty(t, b)
	})
	t.Run("no file", func(t *testing.T) {
		pipe := filepath.Join(dir, "pipe")
		require.NoError(t, unix.Mkfifo(pipe, 0o600))
		for _, path := range []string{pipe, dir, filepath.Join(dir, "no", "such")} {
			code, _ := add(path)
			require.Equal(t, 1, code, path)
		}
	})
}
