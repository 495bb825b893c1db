package supervisor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

func TestRunKeepsStreamsApart(t *testing.T) { // B1
	s := start(t, options(t))
	c := run(t, s, request("echo out; echo err >&2; exit 3"))
	require.Equal(t, guest.StatusExited, c.Status)
	require.Equal(t, 3, *c.ExitCode)
	require.Equal(t, "out\n", string(c.Stdout.Head))
	require.Equal(t, "err\n", string(c.Stderr.Head))
	require.EqualValues(t, 4, c.Stdout.Total)
	require.False(t, c.Stdout.Cut())
	require.False(t, c.OutputHeld)
	require.GreaterOrEqual(t, c.EndedUnixMS, c.StartedUnixMS)
}

func TestRunRepeatedAttaches(t *testing.T) { // C4, G2
	s := start(t, options(t))
	req := request("echo x >> log; cat log")
	first := run(t, s, req)
	require.Equal(t, first, run(t, s, req))
	require.Equal(t, "x\n", string(first.Stdout.Head))

	req.ArgsDigest = "another"
	_, err := s.Run(t.Context(), req)
	require.Equal(t, guest.CodeInvalid, guest.CodeOf(err))
}

func TestRunLeavesDescendant(t *testing.T) { // A1
	s := start(t, options(t))
	m := mark()
	began := time.Now()
	c := run(t, s, request("sleep "+m+" & echo started"))
	require.Less(t, time.Since(began), time.Second)
	require.Equal(t, "started\n", string(c.Stdout.Head))
	require.Equal(t, 0, *c.ExitCode)
	require.True(t, c.OutputHeld)
	require.True(t, alive(m))

	c, err := s.Stop(t.Context(), guest.StopRequest{CallID: callID(), CommandID: c.CallID})
	require.NoError(t, err)
	require.Equal(t, guest.StatusExited, c.Status, "it had ended by itself")
	gone(t, m)
}

func TestRunTimeout(t *testing.T) { // A3, A4, B12
	s := start(t, options(t))
	m := mark()
	for _, command := range []string{
		"echo 1; sleep " + m + "; touch late",
		"trap '' TERM; echo 1; (trap '' TERM; sleep " + m + "); sleep " + m,
		"echo 1; (setsid sleep " + m + " &); setsid -w sh -c 'trap \"\" TERM; sleep " + m + "'",
	} {
		req := request(command)
		req.TimeoutMS = 200
		began := time.Now()
		c := run(t, s, req)
		require.Less(t, time.Since(began), 2*time.Second)
		require.Equal(t, guest.StatusTimedOut, c.Status)
		require.Equal(t, "1\n", string(c.Stdout.Head))
		require.False(t, alive(m), command)
	}
	require.Empty(t, sh(t, s, "ls"))
}

func TestRunAsksNobody(t *testing.T) { // A9
	s := start(t, options(t))
	require.Empty(t, sh(t, s, "cat"))
	require.Equal(t, "1\n", sh(t, s, "read x; echo $?"))
	require.Equal(t, "0 cat dumb\n", sh(t, s, "echo $GIT_TERMINAL_PROMPT $PAGER $TERM"))
	require.Equal(t, "none\n", sh(t, s, "(: </dev/tty) 2>/dev/null || echo none"))
}

func TestRunLongScript(t *testing.T) { // E5
	s := start(t, options(t))
	script := "echo $0 $#; cat; " + strings.Repeat("# padding\n", 20_000) + "echo end; ls -l /proc/self/fd | grep -c memfd; exit 4"
	req := request(script)
	req.Stdin = []byte("stdin\n")
	c := run(t, s, req)
	require.Equal(t, "/bin/bash 0\nstdin\nend\n0\n", string(c.Stdout.Head), string(c.Stderr.Head))
	require.Equal(t, 4, *c.ExitCode)
	require.Equal(t, "/bin/bash 0\n", sh(t, s, "echo $0 $#"))
}

func TestRunRefusesBeforeItBegins(t *testing.T) {
	s := start(t, options(t))
	for name, c := range map[string]struct {
		change func(*guest.RunRequest)
		code   guest.Code
	}{
		"no such cwd":   {func(r *guest.RunRequest) { r.Cwd = "missing" }, guest.CodeNotFound},
		"cwd is a file": {func(r *guest.RunRequest) { r.Cwd = "/etc/passwd" }, guest.CodeInvalid},
		"NUL":           {func(r *guest.RunRequest) { r.Command = "a\x00b" }, guest.CodeInvalid},
		"empty":         {func(r *guest.RunRequest) { r.Command = "" }, guest.CodeInvalid},
		"env":           {func(r *guest.RunRequest) { r.Env = map[string]string{"A=B": ""} }, guest.CodeInvalid},
		"call ID":       {func(r *guest.RunRequest) { r.CallID = "../x" }, guest.CodeInvalid},
		"timeout":       {func(r *guest.RunRequest) { r.TimeoutMS = guest.MaxTimeoutMS + 1 }, guest.CodeInvalid}, // A8
		"wait":          {func(r *guest.RunRequest) { r.WaitMS = -1 }, guest.CodeInvalid},
		"output":        {func(r *guest.RunRequest) { r.MaxOutput = guest.MaxInline + 1 }, guest.CodeInvalid},
		"huge":          {func(r *guest.RunRequest) { r.Command = strings.Repeat("x", guest.MaxInline+1) }, guest.CodeTooLarge},
	} {
		req := request("echo never")
		c.change(&req)
		_, err := s.Run(t.Context(), req)
		require.Equal(t, c.code, guest.CodeOf(err), "%s: %v", name, err)
		if guest.ValidCallID(req.CallID) {
			refused, err := s.Refuse(t.Context(), guest.RefuseRequest{CallID: req.CallID})
			require.NoError(t, err)
			require.True(t, refused.Refused, "%s: nothing had begun", name)
		}
	}
}

func TestRunEnvironment(t *testing.T) {
	s := start(t, options(t))
	req := request("echo $A $LANG; pwd; cd sub && pwd")
	req.Env = map[string]string{"A": "b c"}
	sh(t, s, "mkdir sub")
	require.Contains(t, string(run(t, s, req).Stdout.Head), "b c ")
	req = request("pwd")
	req.Cwd = "sub"
	require.True(t, strings.HasSuffix(string(run(t, s, req).Stdout.Head), "/sub\n"))
}

func TestNoZombies(t *testing.T) { // D1
	s := start(t, options(t))
	sh(t, s, "for i in $(seq 100); do (true &); done")
	require.Eventually(t, func() bool { return zombies() == 0 }, 5*time.Second, 5*time.Millisecond)
}

func TestRunTellsHowLongItRuns(t *testing.T) {
	s := start(t, options(t))
	req := request("exec sleep 60")
	req.WaitMS = 100
	c := run(t, s, req)
	require.Equal(t, guest.StatusRunning, c.Status)
	require.GreaterOrEqual(t, c.RunningMS, int64(100))
	_, err := s.Stop(t.Context(), guest.StopRequest{CallID: callID(), CommandID: c.CallID, Signal: "KILL"})
	require.NoError(t, err)
	require.Zero(t, run(t, s, req).RunningMS)
}
