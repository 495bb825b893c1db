package e2e_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// Files belong to the sandbox user, whoever wrote them.
func TestFileCases(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	t.Run("E1 what is written is the sandbox user's", func(t *testing.T) { e1Ownership(t, s.Client()) })
	t.Run("E1 no setuid bit by accident", func(t *testing.T) { e1NoSetuid(t, s.Client()) })
	t.Run("streams can be opened by name", func(t *testing.T) { streamsByName(t, s.Client()) })
	t.Run("signals have their usual meaning", func(t *testing.T) { usualSignals(t, s.Client()) })
	t.Run("G1 large output and files", func(t *testing.T) { g1Large(t, s.Client()) })
}

func e1Ownership(t *testing.T, c *harness.Client) {
	id := c.StartSession(t, nil)
	c.OK(t, "write_file", harness.Args{"session_id": id, "path": "a/b/c.sh", "content": "#!/bin/sh\necho ran\n", "mode": "0755"})
	c.OK(t, "write_file", harness.Args{"session_id": id, "path": "/tmp/d/e", "content": "x"})
	c.OK(t, "edit_file", harness.Args{"session_id": id, "path": "/tmp/d/e", "old_str": "x", "new_str": "y"})
	c.OK(t, "write_file", harness.Args{"session_id": id, "path": "log", "content": "x\n", "append": true})
	require.Equal(t, strings.Join([]string{
		"1000:1000 755 a", "1000:1000 755 a/b", "1000:1000 755 a/b/c.sh", "1000:1000 755 /tmp/d", "1000:1000 644 /tmp/d/e", "1000:1000 644 log", "",
	}, "\n"), c.Run(t, id, `stat -c '%u:%g %a %n' a a/b a/b/c.sh /tmp/d /tmp/d/e log`).Str("stdout"))
	r := c.Run(t, id, `a/b/c.sh && echo more >> a/b/c.sh && mv a/b/c.sh a/b/moved && rm -r a /tmp/d log && echo removed`)
	require.Equal(t, "ran\nremoved\n", r.Str("stdout"), r.Str("stderr"))

	for _, path := range []string{"/etc/planted", "/planted", "/.sandbox/planted", "/proc/sys/kernel/hostname"} {
		r := c.Call(t, "write_file", harness.Args{"session_id": id, "path": path, "content": "x"})
		require.Equal(t, string(session.PermissionDenied), r.Code(), "%s: %s", path, r.Text)
	}
}

// A file that runs as its owner, rewritten by whoever asked, must not keep that.
func e1NoSetuid(t *testing.T, c *harness.Client) {
	id := c.StartSession(t, nil)
	for _, mode := range []string{"4755", "2755", "1777", "07777", "rwx", "888"} {
		r := c.Call(t, "write_file", harness.Args{"session_id": id, "path": "f", "content": "x", "mode": mode})
		require.Equal(t, string(session.InvalidArgument), r.Code(), "mode %s: %s", mode, r.Text)
	}
	c.Run(t, id, "for f in w a e; do echo x > $f; chmod 6755 $f; done")
	c.OK(t, "write_file", harness.Args{"session_id": id, "path": "w", "content": "y\n"})
	c.OK(t, "write_file", harness.Args{"session_id": id, "path": "a", "content": "y\n", "append": true})
	c.OK(t, "edit_file", harness.Args{"session_id": id, "path": "e", "old_str": "x", "new_str": "y"})
	require.Equal(t, "755 w\n755 a\n755 e\n", c.Run(t, id, "stat -c '%a %n' w a e").Str("stdout"))
}

// As scripts do, who find root's pipes there in a sandbox made carelessly
// (moby#31243).
func streamsByName(t *testing.T, c *harness.Client) {
	id := c.StartSession(t, nil)
	r := c.Run(t, id, "tee /dev/stderr </dev/stdin; echo out >>/dev/stdout", harness.Args{"stdin": "in\n"})
	require.Equal(t, "in\nout\n", r.Str("stdout"))
	require.Equal(t, "in\n", r.Str("stderr"))
	r = c.Run(t, id, "cat /dev/stdin; echo $?")
	require.Equal(t, "0\n", r.Str("stdout"), r.Str("stderr"))
}

// What PID 1 ignores, its children would ignore too.
func usualSignals(t *testing.T, c *harness.Client) {
	id := c.StartSession(t, nil)
	r := c.Run(t, id, "grep SigIgn /proc/self/status; yes | head -n 1 > y; cat y", harness.Args{"timeout_seconds": 10})
	require.Equal(t, "SigIgn:\t0000000000000000\ny\n", r.Str("stdout"))
	require.Equal(t, "exited", r.Str("status"))
	require.Empty(t, r.Str("stderr"))
	handle := c.Run(t, id, "exec sleep 600", harness.Args{"wait_seconds": 0}).Str("command_id")
	c.OK(t, "stop_command", harness.Args{"session_id": id, "command_id": handle, "signal": "HUP"})
	r = c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": handle, "wait_seconds": 10})
	require.Equal(t, true, r.Structured["eof"], "hung up")
}

// Output is cut and can be read on; content is refused with how to do it.
func g1Large(t *testing.T, c *harness.Client) {
	id := c.StartSession(t, nil)
	const total = 5 << 20
	r := c.Run(t, id, "yes 0123456789abcde | head -c 5242880")
	require.Equal(t, total, r.Num("stdout_bytes"))
	require.Equal(t, true, r.Structured["truncated"])
	require.Less(t, len(r.Raw), 200_000)
	got, offset := 0, 0
	for got < total {
		o := c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": r.Str("command_id"), "offset": offset, "max_bytes": 262144})
		chunk := o.Str("data")
		require.NotEmpty(t, chunk)
		want := strings.Repeat("0123456789abcde\n", len(chunk)/16+2)
		require.True(t, strings.HasPrefix(want[offset%16:], chunk), "at %d", offset)
		got, offset = got+len(chunk), o.Num("next_offset")
	}
	require.Equal(t, total, got)

	_, err := c.Try(t.Context(), "", "write_file", harness.Args{"session_id": id, "path": "big", "content": strings.Repeat("x", total)})
	require.ErrorContains(t, err, "send less at a time") // the transport's own limit
	w := c.Call(t, "write_file", harness.Args{"session_id": id, "path": "big", "content": strings.Repeat("x", 3<<20)})
	require.Equal(t, string(session.InvalidArgument), w.Code(), w.Text[:min(len(w.Text), 300)])
	require.Contains(t, w.Text, "append")
	require.Equal(t, "gone\n", c.Run(t, id, "test -e big || echo gone").Str("stdout"))

	// A change of every line is a diff of twice the file.
	c.Run(t, id, "yes line | head -c 5242880 > lines")
	e := c.OK(t, "edit_file", harness.Args{"session_id": id, "path": "lines", "old_str": "line", "new_str": "LINE", "replace_all": true})
	require.Equal(t, total/5, e.Num("replacements"))
	require.Less(t, len(e.Raw), 1_500_000)
	require.Equal(t, "LINE\n", c.Run(t, id, "head -n 1 lines").Str("stdout"))
}
