package supervisor_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// background starts a command with an open stdin and does not wait.
func background(t *testing.T, api guest.API, command string) guest.Command {
	t.Helper()
	req := request(command)
	req.WaitMS, req.KeepStdin = 0, true
	return run(t, api, req)
}

func output(t *testing.T, api guest.API, id string, offset int64) guest.OutputChunk {
	t.Helper()
	c, err := api.Output(t.Context(), guest.OutputRequest{
		CallID: id, Stream: guest.Stdout, Offset: offset, MaxBytes: guest.MaxInline, WaitMS: 10_000,
	})
	require.NoError(t, err)
	return c
}

func TestHeadAndTail(t *testing.T) { // B3
	s := start(t, options(t))
	req := request("seq 1 200000; echo 'FATAL: linker error' >&2; exit 2")
	req.MaxOutput = 100
	c := run(t, s, req)
	require.EqualValues(t, 1_288_895, c.Stdout.Total)
	require.Equal(t, c.Stdout.Total, c.Stdout.Logged)
	require.True(t, c.Stdout.Cut())
	require.Len(t, c.Stdout.Head, 50)
	require.Len(t, c.Stdout.Tail, 50)
	require.True(t, bytes.HasPrefix(c.Stdout.Head, []byte("1\n2\n")))
	require.True(t, bytes.HasSuffix(c.Stdout.Tail, []byte("\n200000\n")))
	require.Equal(t, "FATAL: linker error\n", string(c.Stderr.Head))

	last := output(t, s, c.CallID, -7)
	require.Equal(t, "200000\n", string(last.Data))
	require.True(t, last.EOF)
	require.EqualValues(t, 1_288_888, last.Offset)
	first := output(t, s, c.CallID, 0)
	require.Len(t, first.Data, guest.MaxInline)
	require.False(t, first.EOF)
	past := output(t, s, c.CallID, 1<<40)
	require.Empty(t, past.Data)
	require.True(t, past.EOF)
}

func TestBackgroundCat(t *testing.T) { // A10
	s := start(t, options(t))
	c := background(t, s, "cat")
	require.Equal(t, guest.StatusRunning, c.Status)

	in := guest.InputRequest{CallID: callID(), CommandID: c.CallID, Data: []byte("héllo\n")}
	for range 2 { // sent twice, written once
		res, err := s.Input(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, 7, res.Written)
	}
	got := output(t, s, c.CallID, 0)
	require.Equal(t, "héllo\n", string(got.Data))
	require.False(t, got.EOF)
	_, err := s.Input(t.Context(), guest.InputRequest{CallID: callID(), CommandID: c.CallID, Close: true})
	require.NoError(t, err)
	got = output(t, s, c.CallID, 7)
	require.True(t, got.EOF)
	require.Empty(t, got.Data)
	require.Equal(t, 0, *got.Command.ExitCode)
	_, err = s.Input(t.Context(), guest.InputRequest{CallID: callID(), CommandID: c.CallID, Data: []byte("x")})
	require.Equal(t, guest.CodePrecondition, guest.CodeOf(err))
	_, err = s.Input(t.Context(), guest.InputRequest{CallID: callID(), CommandID: "nobody"})
	require.Equal(t, guest.CodeNotFound, guest.CodeOf(err))
}

func TestInputNobodyReads(t *testing.T) {
	s := start(t, options(t))
	c := background(t, s, "exec sleep "+mark())
	var err error
	for i := 0; err == nil && i < 10; i++ {
		_, err = s.Input(t.Context(), guest.InputRequest{
			CallID: callID(), CommandID: c.CallID, Data: bytes.Repeat([]byte("x"), guest.MaxInline),
		})
	}
	require.Equal(t, guest.CodeExhausted, guest.CodeOf(err))
	_, err = s.Stop(t.Context(), guest.StopRequest{CallID: callID(), CommandID: c.CallID, Signal: "KILL"})
	require.NoError(t, err)

	req := request("exec 0<&-; true")
	req.Stdin = bytes.Repeat([]byte("x"), guest.MaxInline)
	require.Equal(t, 0, *run(t, s, req).ExitCode)
	req = request("sha256sum | cut -c1-8")
	req.Stdin = bytes.Repeat([]byte("x"), guest.MaxInline)
	require.Equal(t, "d509bff6\n", string(run(t, s, req).Stdout.Head))
}

func TestLogCap(t *testing.T) { // B8
	opts := options(t)
	opts.LogCap, opts.LogTotal = 100_000, 250_000
	s := start(t, opts)
	first := run(t, s, request("head -c 1000000 /dev/zero | tr '\\0' a"))
	require.EqualValues(t, 1_000_000, first.Stdout.Total)
	require.EqualValues(t, 100_000, first.Stdout.Logged)
	require.True(t, output(t, s, first.CallID, 90_000).EOF)

	run(t, s, request("head -c 100000 /dev/zero"))
	last := run(t, s, request("head -c 100000 /dev/zero"))
	require.EqualValues(t, 100_000, last.Stdout.Logged)
	_, err := s.Output(t.Context(), guest.OutputRequest{CallID: first.CallID, Stream: guest.Stdout, MaxBytes: 10})
	require.Equal(t, guest.CodeNotFound, guest.CodeOf(err))
	require.ErrorContains(t, err, "no longer kept")
	u, err := s.Usage(t.Context())
	require.NoError(t, err)
	require.Less(t, u.DiskBytes, int64(260_000))

	// A command that still runs keeps its log; it only grows no more.
	yes := run(t, s, request("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2"))
	require.EqualValues(t, 300_000, yes.Stderr.Total)
	logs, err := filepath.Glob(filepath.Join(opts.State, "logs", "*"))
	require.NoError(t, err)
	total := int64(0)
	for _, l := range logs {
		info, err := os.Stat(l)
		require.NoError(t, err)
		total += info.Size()
	}
	require.LessOrEqual(t, total, opts.LogTotal)
}

func TestOutputWaits(t *testing.T) { // A13
	s := start(t, options(t))
	c := background(t, s, "echo 1; read x; echo 2; read x")
	require.Equal(t, "1\n", string(output(t, s, c.CallID, 0).Data))
	began := time.Now()
	none, err := s.Output(t.Context(), guest.OutputRequest{CallID: c.CallID, Stream: guest.Stdout, Offset: 2, MaxBytes: 10, WaitMS: 30})
	require.NoError(t, err)
	require.Empty(t, none.Data)
	require.GreaterOrEqual(t, time.Since(began), 30*time.Millisecond)
	require.Equal(t, guest.StatusRunning, none.Command.Status)
	_, err = s.Input(t.Context(), guest.InputRequest{CallID: callID(), CommandID: c.CallID, Data: []byte("\n")})
	require.NoError(t, err)
	require.Equal(t, "2\n", string(output(t, s, c.CallID, 2).Data))
}

func TestDescendantKeepsWriting(t *testing.T) {
	s := start(t, options(t))
	c := run(t, s, request("mkfifo f; (read x < f; head -c 200000 /dev/zero | tr '\\0' b; echo end) & echo first"))
	require.Equal(t, "first\n", string(c.Stdout.Head))
	require.True(t, c.OutputHeld)
	sh(t, s, "echo go > f")
	require.Eventually(t, func() bool {
		return strings.HasSuffix(string(output(t, s, c.CallID, -4).Data), "end\n")
	}, 10*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool { return !output(t, s, c.CallID, 0).Command.OutputHeld }, 10*time.Second, 5*time.Millisecond)
}
