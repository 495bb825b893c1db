package datadir_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
)

// holdEnv makes the test binary a process that holds the lock of that data dir.
const holdEnv = "DATADIR_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		os.Exit(hold(dir))
	}
	goleak.VerifyTestMain(m)
}

func hold(dir string) int {
	d, err := datadir.Open(dir, datadir.Options{Exclusive: true})
	if err == nil {
		err = d.SetPurpose("a server, listening on 127.0.0.1:8765")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, "held")
	select {} // until killed
}

func open(t *testing.T, path string, opts datadir.Options) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func TestDefault(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		want string
		err  string
	}{
		{"XDG_STATE_HOME", map[string]string{"XDG_STATE_HOME": "/x/state", "HOME": "/home/u"}, "/x/state/mcp-sandbox", ""},
		{"HOME", map[string]string{"HOME": "/home/u"}, "/home/u/.local/state/mcp-sandbox", ""},
		{"a relative XDG_STATE_HOME is ignored", map[string]string{"XDG_STATE_HOME": "state", "HOME": "/home/u"}, "/home/u/.local/state/mcp-sandbox", ""},
		{"neither", nil, "", "give --data-dir"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := datadir.Default(func(k string) string { return tt.env[k] })
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestOpenMakesWhatIsMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	created := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	d := open(t, path, datadir.Options{Exclusive: true, Now: func() time.Time { return created }})

	require.Regexp(t, `^i_[a-z2-7]{26}$`, d.InstallationID())
	require.Regexp(t, `^h_[a-z2-7]{26}$`, d.HostID())
	require.Len(t, d.Secret(), 32)
	require.Equal(t, filepath.Join(path, "x", "y"), d.Path("x", "y"))
	requireMode(t, path, 0o700)
	requireMode(t, d.Path("lock"), 0o600)
	requireMode(t, d.Path("installation.json"), 0o600)
	require.ElementsMatch(t, []string{"lock", "installation.json"}, names(t, path), "no temporary file is left")

	var file map[string]any
	text, err := os.ReadFile(d.Path("installation.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &file))
	require.InDelta(t, 1, file["format"], 0)
	require.Equal(t, "2026-11-30T12:00:00Z", file["created"])
	require.Equal(t, base64.StdEncoding.EncodeToString(d.Secret()), file["secret"])
}

func TestOpenFindsTheSameAgain(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.Chmod(path, 0o700))
	first := open(t, path, datadir.Options{})
	second := open(t, path, datadir.Options{})
	require.Equal(t, first.InstallationID(), second.InstallationID())
	require.Equal(t, first.HostID(), second.HostID())
	require.Equal(t, first.Secret(), second.Secret())

	first.Secret()[0] ^= 1
	require.Equal(t, second.Secret(), first.Secret(), "the caller's copy is its own")
}

func TestOpenAtOnceMakesOneIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir")
	var wg sync.WaitGroup
	ids := make([]string, 16)
	for i := range ids {
		wg.Go(func() {
			if d, err := datadir.Open(path, datadir.Options{}); err == nil {
				token, _ := d.Token()
				ids[i] = d.InstallationID() + token
			}
		})
	}
	wg.Wait()
	require.NotEmpty(t, ids[0])
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
}

func TestOpenRefusesWhatOthersCanEnter(t *testing.T) {
	for _, mode := range []os.FileMode{0o750, 0o705, 0o777, 0o710} {
		t.Run(mode.String(), func(t *testing.T) {
			path := t.TempDir()
			require.NoError(t, os.Chmod(path, mode))
			_, err := datadir.Open(path, datadir.Options{})
			require.ErrorContains(t, err, "chmod 700 "+path)
			require.Empty(t, names(t, path))
			requireMode(t, path, mode)
		})
	}
}

func TestOpenRefusesSomeoneElses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("run it as root to see that a directory of another user is refused")
	}
	path := t.TempDir()
	require.NoError(t, os.Chmod(path, 0o700))
	require.NoError(t, os.Chown(path, 12345, 12345))
	_, err := datadir.Open(path, datadir.Options{})
	require.ErrorContains(t, err, "belongs to uid 12345")
}

func TestOpenRefusesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := datadir.Open(path, datadir.Options{})
	require.ErrorContains(t, err, "--data-dir")
}

func TestLockNamesItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir")
	first := open(t, path, datadir.Options{Exclusive: true})
	require.NoError(t, first.SetPurpose("a server, listening on 127.0.0.1:8765"))

	_, err := datadir.Open(path, datadir.Options{Exclusive: true})
	var inUse *datadir.InUseError
	require.ErrorAs(t, err, &inUse)
	require.EqualError(t, err, fmt.Sprintf("a server, listening on 127.0.0.1:8765 (pid %d) already uses the data dir %s; stop it, or give another --data-dir (mcp-sandbox shutdown stops a server, one in the background too)",
		os.Getpid(), path))
	open(t, path, datadir.Options{}) // the lock keeps out servers, not readers

	require.NoError(t, first.Close())
	require.NoError(t, first.Close())
	open(t, path, datadir.Options{Exclusive: true})
}

func TestLockWithoutReadableHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir")
	d := open(t, path, datadir.Options{Exclusive: true})
	require.NoError(t, os.WriteFile(d.Path("lock"), []byte(`{"pid": 1`), 0o600))
	_, err := datadir.Open(path, datadir.Options{Exclusive: true})
	require.ErrorContains(t, err, "another process already uses")
}

func TestLockDiesWithItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, 16)
	n, err := out.Read(line)
	require.NoError(t, err)
	require.Equal(t, "held\n", string(line[:n]))

	_, err = datadir.Open(path, datadir.Options{Exclusive: true})
	require.ErrorContains(t, err, fmt.Sprintf("a server, listening on 127.0.0.1:8765 (pid %d)", cmd.Process.Pid))

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	open(t, path, datadir.Options{Exclusive: true})
}

func TestDamagedInstallationIsNeverReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir")
	d := open(t, path, datadir.Options{})
	file := d.Path("installation.json")
	good, err := os.ReadFile(file)
	require.NoError(t, err)

	change := func(key string, value any) []byte {
		var m map[string]any
		require.NoError(t, json.Unmarshal(good, &m))
		m[key] = value
		text, err := json.Marshal(m)
		require.NoError(t, err)
		return text
	}
	tests := []struct {
		name string
		text []byte
		err  string
	}{
		{"empty", nil, "is damaged"},
		{"cut", good[:len(good)/2], "is damaged"},
		{"no format", change("format", nil), "format is missing"},
		{"a host's ID", change("id", d.HostID()), "id is missing or wrong"},
		{"no host", change("host_id", ""), "host_id is missing or wrong"},
		{"short secret", change("secret", "c2hvcnQ="), "secret is missing or wrong"},
		{"zero secret", change("secret", make([]byte, 32)), "secret is missing or wrong"},
		{"a later format", change("format", 2), "has format 2, and this mcp-sandbox knows format 1 only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, tt.text, 0o600))
			_, err := datadir.Open(path, datadir.Options{Exclusive: true})
			require.ErrorContains(t, err, tt.err)
			require.ErrorContains(t, err, file)
			require.ErrorContains(t, err, "--data-dir", "a way out is named")
			got, readErr := os.ReadFile(file)
			require.NoError(t, readErr)
			require.Equal(t, string(tt.text), string(got))
		})
	}
	require.NoError(t, os.WriteFile(file, good, 0o600))
	open(t, path, datadir.Options{Exclusive: true}) // none of the failures kept the lock
}

func TestToken(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "dir"), datadir.Options{})
	first, err := d.Token()
	require.NoError(t, err)
	random, err := base64.RawURLEncoding.DecodeString(first)
	require.NoError(t, err)
	require.Len(t, random, 32)
	requireMode(t, d.Path("token"), 0o600)

	again, err := d.Token()
	require.NoError(t, err)
	require.Equal(t, first, again)

	own := "a-token-of-my-own-that-is-long-enough"
	require.NoError(t, os.WriteFile(d.Path("token"), []byte(own+"\n"), 0o600))
	again, err = d.Token()
	require.NoError(t, err)
	require.Equal(t, own, again)

	for _, bad := range []string{"", "short", "two lines of text that are\nlong enough for a token"} {
		require.NoError(t, os.WriteFile(d.Path("token"), []byte(bad), 0o600))
		_, err = d.Token()
		require.ErrorContains(t, err, "is damaged")
	}
	require.NoError(t, os.Remove(d.Path("token")))
	again, err = d.Token()
	require.NoError(t, err)
	require.NotEqual(t, first, again)
}

func requireMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, want, info.Mode().Perm())
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
