package e2e_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// What a sandbox keeps in, and keeps from its own user.
func TestIsolationCases(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	for name, test := range map[string]func(*testing.T, *harness.Server){
		"F1 without a network no packet leaves":    f1NoNetwork,
		"F2 no way to more rights":                 f2Rights,
		"F5 links lead no further than their user": f5Links,
		"F5 links that change meanwhile":           f5Race,
		"F6 secrets stay out of snapshots":         f6Secrets,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

func f1NoNetwork(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	require.Equal(t, "none", string(s.Container(t, id).HostConfig.NetworkMode))
	for _, try := range []string{
		"nslookup example.com 1.1.1.1", "nslookup example.com", "nc -w 2 1.1.1.1 443 </dev/null", "nc -w 2 169.254.169.254 80 </dev/null",
		"nc -w 2 172.17.0.1 2375 </dev/null", "echo x | nc -u -w 2 1.1.1.1 53", "wget -q -T 2 -O - http://169.254.169.254/", "ping -c 1 -W 2 1.1.1.1",
	} {
		r := c.Run(t, id, try, harness.Args{"timeout_seconds": 20})
		require.NotEqual(t, 0, r.Num("exit_code"), try)
		require.NotContains(t, r.Str("stderr"), "not found", "the test needs the program: %s", try)
	}
	// One interface, and not a byte on it but to itself; no route.
	require.Equal(t, "lo:\n", c.Run(t, id, "awk 'NR > 2 {print $1}' /proc/net/dev").Str("stdout"))
	require.Equal(t, "0\n", c.Run(t, id, "awk 'NR > 1' /proc/net/route | wc -l").Str("stdout"))
}

func f2Rights(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	status := c.Run(t, id, "cat /proc/self/status").Str("stdout")
	for _, line := range []string{
		"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
		"CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "Uid:\t1000\t1000\t1000\t1000", "Gid:\t1000\t1000\t1000\t1000",
	} {
		require.Contains(t, status, line+"\n")
	}
	for _, try := range []string{
		"mount -t tmpfs none /tmp", "unshare -m true", "unshare -U true", "unshare -r true", "touch /x", "touch /etc/x", "cat /.sandbox/guest", "ls /.sandbox",
		"ls /.sandbox/state", "cat /proc/1/environ", "ls /proc/1/fd", "chroot / true", "kill -9 1", "mknod /tmp/null c 1 3", "test -e /var/run/docker.sock",
		"test -e /run/docker.sock", "su -c true", "echo 1 > /proc/sys/kernel/panic", "cat /dev/mem", "dmesg",
	} {
		require.NotEqual(t, 0, c.Run(t, id, try).Num("exit_code"), try)
	}
	info := s.Container(t, id)
	require.False(t, info.HostConfig.Privileged)
	require.Empty(t, info.HostConfig.Binds)
	require.Equal(t, "ok\n", c.Run(t, id, "echo ok").Str("stdout"))
}

// A link is followed with the sandbox user's rights, and root's state has none
// for that user.
func f5Links(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, harness.Args{"env": harness.Args{"MARK": "f5-environment"}})
	c.Run(t, id, "ln -s /.sandbox/state state; ln -s /.sandbox/guest guest; ln -s /etc/shadow shadow; ln -s /etc/passwd passwd; ln -s /proc/1/environ environ; ln -s / root; ln -s /proc/1/root pid1; ln -s loop loop")
	before := c.Run(t, id, "cat /etc/passwd").Str("stdout")
	for _, path := range []string{
		"state/journal", "state/x", "guest", "environ", "root/.sandbox/guest", "pid1/etc/passwd", "/proc/1/mem", "/proc/self/root/.sandbox/guest", "loop",
	} {
		r := c.Call(t, "read_file", harness.Args{"session_id": id, "path": path})
		require.Contains(t, []string{string(session.PermissionDenied), string(session.NotFound), string(session.InvalidArgument), string(session.FailedPrecondition)}, r.Code(), "%s: %s", path, r.Text)
		require.NotContains(t, r.Text, "f5-environment")
	}
	for _, path := range []string{"state/journal", "state/x", "guest", "shadow", "passwd", "environ", "root/x", "pid1/tmp/x", "loop"} {
		r := c.Call(t, "write_file", harness.Args{"session_id": id, "path": path, "content": "planted"})
		require.NotEqual(t, string(session.Internal), r.Code(), "%s: %s", path, r.Text)
		if r.IsError {
			continue
		}
		// Only a link itself may have been replaced by the user's own file.
		require.True(t, strings.HasPrefix(r.Str("path"), "/home/sandbox/"), r.Text)
	}
	require.Equal(t, before, c.Run(t, id, "cat /etc/passwd").Str("stdout"))
	require.Equal(t, "denied\n", c.Run(t, id, "cat /.sandbox/state/* 2>/dev/null || echo denied").Str("stdout"))
}

// A directory turns into a link to root's and back while calls go through it.
func f5Race(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	c.Run(t, id, "mkdir real; for f in guest passwd state; do echo mine > real/$f; done; ln -s real d")
	// rename(2) replaces the link in one step, so that d always exists.
	c.Run(t, id, "ln -s real a; ln -s /.sandbox b; ln -s /etc e; while :; do for l in a b e; do cp -P $l n && mv -T n d; done; done", harness.Args{"wait_seconds": 0})
	passwd := c.Run(t, id, "cat /etc/passwd").Str("stdout")
	outcomes := map[string]int{}
	for i := range 150 {
		file := []string{"guest", "passwd", "state"}[i%3]
		r := c.Call(t, "read_file", harness.Args{"session_id": id, "path": "d/" + file})
		if !r.IsError {
			require.Contains(t, []string{"mine\n", passwd}, r.Str("content"), "as the sandbox user may")
		}
		outcomes["read "+r.Code()]++
		r = c.Call(t, "write_file", harness.Args{"session_id": id, "path": "d/" + file, "content": "mine\n"})
		require.NotEqual(t, string(session.Internal), r.Code(), r.Text)
		outcomes["write "+r.Code()]++
	}
	t.Log(outcomes)
	require.NotZero(t, outcomes["write PermissionDenied"], "the race was on")
	require.Equal(t, passwd, c.Run(t, id, "cat /etc/passwd").Str("stdout"))
	require.Equal(t, "mine\n", c.Run(t, id, "cat real/guest").Str("stdout"))
}

func f6Secrets(t *testing.T, s *harness.Server) {
	c := s.Client()
	const one, two, three = "f6-of-the-session-3141", "f6-of-the-command-5926", "f6-of-stdin-5358"
	id := c.StartSession(t, harness.Args{"env": harness.Args{"TOKEN": one}})
	r := c.CallAs(t, "f6", "run_command", harness.Args{
		"session_id": id, "command": "echo ${#TOKEN} ${#OTHER} $(wc -c); echo marker-in-a-file > file", "env": harness.Args{"OTHER": two}, "stdin": three,
	})
	require.Equal(t, fmt.Sprintln(len(one), len(two), len(three)), r.Str("stdout"))
	snap := c.OK(t, "snapshot", harness.Args{"session_id": id}).Str("snapshot_id")

	image := s.SnapshotImage(t, snap)
	require.True(t, bytes.Contains(image, []byte("marker-in-a-file")), "the search finds what is there")
	require.NotContains(t, fmt.Sprintf("%+v", s.Container(t, id).Config), one)
	fork := c.StartSession(t, harness.Args{"snapshot_id": snap})
	state := s.Copy(t, s.Container(t, fork).ID, "/.sandbox/state")
	for _, secret := range []string{one, two, three} {
		require.False(t, bytes.Contains(image, []byte(secret)), "%s is in the image", secret)
		require.False(t, bytes.Contains(state, []byte(secret)), "%s is in the fork's journal", secret)
	}
	require.False(t, bytes.Contains(state, []byte(`f6`)), "the fork knows no call of before")
	require.Equal(t, "0 0\n", c.Run(t, fork, "echo ${#TOKEN} ${#OTHER}").Str("stdout"), "env is not handed on")
}
