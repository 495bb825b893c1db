package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// The operator's commands, by the binary, beside a server that works for two
// owners.
func TestOperatorsCommands(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	s := harness.Start(t, "--auth-token-file", newTokens(t, tokens, "carol"))
	// A server that runs takes further owners.
	alice, bob := s.ClientWithToken(newToken(t, tokens, "alice")), s.ClientWithToken(newToken(t, tokens, "bob"))
	require.Eventually(t, func() bool {
		_, err := bob.Try(t.Context(), "", "list_sessions", nil)
		return err == nil
	}, 5*time.Second, 50*time.Millisecond)

	one := alice.StartSession(t, harness.Args{"name": "one"})
	two := alice.StartSession(t, harness.Args{"name": "two \u202e words"})
	his := bob.StartSession(t, nil)
	t.Run("sessions list", func(t *testing.T) {
		require.Eventually(t, func() bool { return len(listed(t, s)) == 3 }, 5*time.Second, 50*time.Millisecond)
		require.Equal(t, []string{two, one}, listed(t, s, "--owner", "alice"))
		require.Equal(t, []string{his}, listed(t, s, "--limit", "1"))
		require.Equal(t, []string{his, two, one}, listed(t, s, "--status", "running"))
		require.Empty(t, listed(t, s, "--status", "ended"))
		r := cli(t, s, "sessions", "list").ok(t)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		require.Len(t, lines, 4)
		require.Regexp(t, `^SESSION ID +STATUS +OWNER +STARTED +ENDED +IMAGE +NAME$`, lines[0])
		require.Regexp(t, `^`+his+`  running  bob    20\S+Z  -      mcp-sandbox/test-busybox:latest  -$`, lines[1])
		require.Contains(t, lines[2], `"two \u202e words"`)
	})
	t.Run("sessions show", func(t *testing.T) {
		alice.Run(t, one, "sleep 60", harness.Args{"wait_seconds": 0})
		r := cli(t, s, "sessions", "show", one).ok(t)
		require.Regexp(t, `(?m)^owner +alice$`, r.stdout)
		require.Regexp(t, `(?m)^running +20\S+Z sleep 60$`, r.stdout)
		var d session.Details
		cli(t, s, "sessions", "show", one, "--json").ok(t).decode(t, &d)
		require.Equal(t, "alice", d.Owner)
		require.Equal(t, session.StatusRunning, d.Status)
		require.Len(t, d.Commands, 1)
		require.NotNil(t, d.Usage)
		r = cli(t, s, "sessions", "show", "s_aaaaaaaaaaaaaaaaaaaaaaaaaa")
		require.Equal(t, 1, r.code)
		require.Empty(t, r.stdout)
		require.Contains(t, r.stderr, "mcp-sandbox sessions list shows")
	})
	t.Run("snapshots", func(t *testing.T) { operateSnapshots(t, s, alice, bob, one, his) })
	t.Run("doctor", func(t *testing.T) {
		r := cli(t, s, "doctor", "--default-image", harness.TestImage).ok(t)
		require.Contains(t, r.stdout, "ready, on 127.0.0.1:")
		require.NotContains(t, r.stdout, "fail")
	})
	t.Run("sessions end", func(t *testing.T) {
		r := cli(t, s, "sessions", "end", his, "s_nope", his)
		require.Equal(t, 1, r.code)
		require.Contains(t, r.stderr, `s_nope: no session "s_nope"`)
		require.Equal(t, []string{"SESSION", "ID", "STATUS", his, "ended", "s_nope", "failed"}, strings.Fields(r.stdout))
		require.Equal(t, harness.Holdings{}, s.Holdings(t, session.LabelSession, his))
		gone := bob.Call(t, "run_command", harness.Args{"session_id": his, "command": "true"})
		require.Contains(t, gone.Text, "an operator ended it")
		cli(t, s, "sessions", "end", his).ok(t) // again: no error

		cli(t, s, "sessions", "end", "--all", "--owner", "bob").ok(t)
		require.Len(t, s.Containers(one), 1, "another owner's")
		cli(t, s, "sessions", "end", "--all").ok(t)
		require.Empty(t, append(s.Containers(one), s.Containers(two)...))
		require.Contains(t, cli(t, s, "sessions", "show", one).ok(t).stdout, "an operator ended it")
		require.Eventually(t, func() bool { return len(listed(t, s, "--status", "ended")) == 3 }, 5*time.Second, 50*time.Millisecond)
	})
	t.Run("no server", func(t *testing.T) {
		s.Kill() // so that its profile is left behind
		began := time.Now()
		r := cli(t, s, "sessions", "list")
		require.Less(t, time.Since(began), 3*time.Second)
		require.Equal(t, 1, r.code)
		require.Empty(t, r.stdout)
		require.Contains(t, r.stderr, "no server runs on the data dir "+s.DataDir)
		require.Contains(t, r.stderr, "mcp-sandbox serve --data-dir "+s.DataDir)
		require.Contains(t, cli(t, s, "doctor", "--default-image", harness.TestImage).ok(t).stdout, "start one with")
	})
}

func operateSnapshots(t *testing.T, s *harness.Server, alice, bob *harness.Client, one, his string) {
	t.Helper()
	a := alice.OK(t, "snapshot", harness.Args{"session_id": one, "name": "a"}).Str("snapshot_id")
	b := bob.OK(t, "snapshot", harness.Args{"session_id": his}).Str("snapshot_id")
	list := func(args ...string) []string {
		var d struct{ Snapshots []session.OwnedSnapshot }
		cli(t, s, append([]string{"snapshots", "list", "--json"}, args...)...).ok(t).decode(t, &d)
		ids := []string{}
		for _, snap := range d.Snapshots {
			require.Equal(t, map[string]string{a: "alice", b: "bob"}[snap.SnapshotID], snap.Owner)
			ids = append(ids, snap.SnapshotID)
		}
		return ids
	}
	require.Eventually(t, func() bool { return len(list()) == 2 }, 5*time.Second, 50*time.Millisecond)
	require.Equal(t, []string{b, a}, list())
	require.Equal(t, []string{a}, list("--session", one))
	require.Equal(t, []string{b}, list("--owner", "bob"))
	require.Regexp(t, `(?m)^`+a+`  alice  `+one+`  20\S+Z  20\S+Z  \S+ MiB  a$`, cli(t, s, "snapshots", "list").ok(t).stdout)

	require.NotContains(t, cli(t, s, "snapshots", "prune", "--older-than", "1h").ok(t).stdout, "snap_")
	require.Contains(t, cli(t, s, "snapshots", "prune", "--older-than", "0s", "--owner", "alice", "--dry-run").ok(t).stdout, a+"  found")
	require.Len(t, list(), 2)
	require.Contains(t, cli(t, s, "snapshots", "prune", "--older-than", "0s", "--owner", "alice").ok(t).stdout, a+"  deleted")
	require.Equal(t, "NotFound", alice.Call(t, "restore_snapshot", harness.Args{"session_id": one, "snapshot_id": a}).Code())

	cli(t, s, "snapshots", "delete", b).ok(t)
	require.Equal(t, harness.Holdings{}, s.Holdings(t, session.LabelSnapshot, b))
	r := cli(t, s, "snapshots", "delete", b, "--json")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "mcp-sandbox snapshots list")
	var d struct{ Snapshots []struct{ Status string } }
	r.decode(t, &d)
	require.Equal(t, "failed", d.Snapshots[0].Status)
}

// newTokens makes a token file with one owner in it.
func newTokens(t *testing.T, file, owner string) string {
	t.Helper()
	newToken(t, file, owner)
	return file
}

func newToken(t *testing.T, file, owner string) string {
	t.Helper()
	return strings.TrimSpace(execute(t, "token", "new", owner, "--file", file).ok(t).stdout)
}

// listed gives the IDs that sessions list shows.
func listed(t *testing.T, s *harness.Server, args ...string) []string {
	t.Helper()
	var d struct{ Sessions []session.OwnedSession }
	cli(t, s, append([]string{"sessions", "list", "--json"}, args...)...).ok(t).decode(t, &d)
	ids := []string{}
	for _, e := range d.Sessions {
		ids = append(ids, e.SessionID)
	}
	return ids
}

// printed is what came of a command line.
type printed struct {
	args           []string
	code           int
	stdout, stderr string
}

// cli runs the binary on the server's data dir.
func cli(t *testing.T, s *harness.Server, args ...string) printed {
	t.Helper()
	return execute(t, append(args, "--data-dir", s.DataDir)...)
}

func execute(t *testing.T, args ...string) printed {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), harness.Binary(t), args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return printed{args: args, code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

func (p printed) ok(t *testing.T) printed {
	t.Helper()
	require.Equal(t, 0, p.code, "%s: %s%s", p.args, p.stdout, p.stderr)
	return p
}

// decode wants exactly one JSON document.
func (p printed) decode(t *testing.T, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(p.stdout), into), "%s: %s", p.args, p.stdout)
}
