package access_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/internal/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a clock that a test sets.
type clock struct{ now time.Time }

func (c *clock) options(log *bytes.Buffer) access.Options {
	return access.Options{Now: func() time.Time { return c.now }, Logger: slog.New(slog.NewTextHandler(log, nil))}
}

func (c *clock) later() { c.now = c.now.Add(time.Second) }

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func requireOwner(t *testing.T, a access.Authenticator, token, want string) {
	t.Helper()
	owner, ok := a.Owner(token)
	require.Equal(t, want, owner)
	require.Equal(t, want != "", ok)
}

func TestNewToken(t *testing.T) {
	token, hash := access.NewToken()
	require.Len(t, token, 43)
	require.Equal(t, hashOf(token), hash)
	other, _ := access.NewToken()
	require.NotEqual(t, token, other)
}

func TestAnonymous(t *testing.T) {
	requireOwner(t, access.Anonymous{}, "", "local")
	requireOwner(t, access.Anonymous{}, "anything", "local")
}

func TestCheckOwner(t *testing.T) {
	for _, good := range []string{"a", "team-1.x_y@example.com", strings.Repeat("a", 64)} {
		require.NoError(t, access.CheckOwner(good))
	}
	for _, bad := range []string{"", "a b", "a/b", "a:b", "ä", "a\n", strings.Repeat("a", 65)} {
		require.Error(t, access.CheckOwner(bad))
	}
}

func TestSingle(t *testing.T) {
	var (
		c     = &clock{now: time.Unix(1000, 0)}
		log   bytes.Buffer
		token = "first"
		err   error
	)
	a, openErr := access.NewSingle(func() (string, error) { return token, err }, c.options(&log))
	require.NoError(t, openErr)
	requireOwner(t, a, "first", "local")
	requireOwner(t, a, "firs", "")
	requireOwner(t, a, "", "")

	token = "second"
	requireOwner(t, a, "second", "") // not looked at again within the second
	c.later()
	requireOwner(t, a, "second", "local")
	requireOwner(t, a, "first", "")

	err = errors.New("disk gone")
	c.later()
	requireOwner(t, a, "second", "local")
	require.Contains(t, log.String(), "disk gone")
	require.NotContains(t, log.String(), "second")
}

func TestSingleNeedsAToken(t *testing.T) {
	_, err := access.NewSingle(func() (string, error) { return "", errors.New("damaged") }, access.Options{})
	require.EqualError(t, err, "damaged")
}

func TestTokenFile(t *testing.T) {
	path := write(t, "# people\n\nana:"+hashOf("a1")+"\n  ana:"+hashOf("a2")+"\r\nbob:"+strings.ToUpper(hashOf("b"))+"\n", 0o644)
	a, err := access.OpenTokenFile(path, access.Options{})
	require.NoError(t, err)
	requireOwner(t, a, "a1", "ana")
	requireOwner(t, a, "a2", "ana")
	requireOwner(t, a, "b", "bob")
	for _, bad := range []string{"", "c", hashOf("a1"), "ana", "ana:" + hashOf("a1")} {
		requireOwner(t, a, bad, "")
	}
}

func TestTokenFileNamesLineAndFix(t *testing.T) {
	h := hashOf("x")
	tests := []struct{ name, text, want string }{
		{"no colon", "ana\n", ":1: a line is owner:hash; make one with: mcp-sandbox token new OWNER"},
		{"no owner", "\n:" + h, ":2: the owner"},
		{"bad owner", "a b:" + h, ":1: the owner"},
		{"a token in clear text", "ok:" + h + "\nana:s3cr3t", ":2: after the colon comes the token's SHA-256"},
		{"short hash", "ana:" + h[:62], ":1: after the colon"},
		{"twice", "ana:" + h + "\n#\nbob:" + h, ":3: this token is on line 1 already"},
		{"nobody", "# nobody\n", "has no token in it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.text, 0o600)
			_, err := access.OpenTokenFile(path, access.Options{})
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, path)
			require.NotContains(t, err.Error(), "s3cr3t")
		})
	}
}

func TestTokenFileOfOthers(t *testing.T) {
	for _, mode := range []os.FileMode{0o620, 0o602, 0o666} {
		path := write(t, "ana:"+hashOf("a"), mode)
		_, err := access.OpenTokenFile(path, access.Options{})
		require.ErrorContains(t, err, "chmod go-w "+path)
	}
	_, err := access.OpenTokenFile(t.TempDir(), access.Options{})
	require.ErrorContains(t, err, "no regular file")
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err = access.OpenTokenFile(pipe, access.Options{})
	require.ErrorContains(t, err, "no regular file")
	_, err = access.OpenTokenFile(filepath.Join(t.TempDir(), "none"), access.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)

	if os.Geteuid() != 0 {
		t.Skip("run it as root to see that another user's file is refused")
	}
	path := write(t, "ana:"+hashOf("a"), 0o600)
	require.NoError(t, os.Chown(path, 12345, 12345))
	_, err = access.OpenTokenFile(path, access.Options{})
	require.ErrorContains(t, err, "belongs to uid 12345")
}

func TestTokenFileIsReadAgain(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	var log bytes.Buffer
	path := write(t, "ana:"+hashOf("a"), 0o600)
	a, err := access.OpenTokenFile(path, c.options(&log))
	require.NoError(t, err)

	replace(t, path, "bob:"+hashOf("b"))
	requireOwner(t, a, "a", "ana") // at most once a second
	c.later()
	requireOwner(t, a, "a", "")
	requireOwner(t, a, "b", "bob")

	replace(t, path, "carol:"+hashOf("c")+"\nbroken\n")
	for range 3 {
		c.later()
		requireOwner(t, a, "b", "bob")
		requireOwner(t, a, "c", "")
	}
	require.Equal(t, 1, strings.Count(log.String(), ":2: a line is owner:hash"), "logged once")

	require.NoError(t, os.Remove(path))
	c.later()
	requireOwner(t, a, "b", "bob")
	require.Contains(t, log.String(), "no such file")

	require.NoError(t, os.WriteFile(path, []byte("daniel:"+hashOf("d")), 0o600))
	c.later()
	requireOwner(t, a, "d", "daniel")

	replace(t, path, "# all revoked\n")
	c.later()
	requireOwner(t, a, "d", "")
}

func FuzzTokenFile(f *testing.F) {
	f.Add("# people\n\nana:" + hashOf("a") + "\n")
	f.Add("ana:" + hashOf("a") + "\r\nbob:" + hashOf("a"))
	f.Add("ana\x00:\xff")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := access.OpenTokenFile(write(t, text, 0o600), access.Options{})
		if err != nil {
			return
		}
		for line := range strings.Lines(text) {
			requireOwner(t, a, strings.TrimSpace(line), "") // no line is a token
		}
	})
}

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

// replace does what careful editors do.
func replace(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}
