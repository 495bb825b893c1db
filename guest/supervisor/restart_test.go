package supervisor_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
	"github.com/mcp-sandbox/mcp-sandbox/guest/supervisor"
)

func TestRestartKeepsOutcomes(t *testing.T) {
	opts := options(t)
	s := start(t, opts)
	req := request("echo x >> log; cat log; echo err >&2; exit 3")
	before := run(t, s, req)
	write := guest.WriteFileRequest{CallID: callID(), Path: "f", Content: []byte("a"), Append: true}
	_, err := s.WriteFile(t.Context(), write)
	require.NoError(t, err)
	missing := request("true")
	missing.Cwd = "missing"
	_, err = s.Run(t.Context(), missing)
	require.Error(t, err)
	require.NoError(t, s.Close())

	opts.Fence.Incarnation = 2
	s = start(t, opts)
	require.Equal(t, before, run(t, s, req))
	_, err = s.WriteFile(t.Context(), write)
	require.NoError(t, err)
	require.Equal(t, "a", sh(t, s, "cat f"))
	require.NoError(t, s.Close())

	opts.Fence.Incarnation = 1
	_, err = supervisor.New(opts)
	require.ErrorIs(t, err, journal.ErrForeign)
}

// A journal that ends in begins is what a crash leaves.
func TestCrashLosesWhatRan(t *testing.T) {
	opts := options(t)
	j, err := journal.Open(filepath.Join(opts.State, "journal"), journal.Options{
		Session: fence.Session, Incarnation: 1, Permanent: "run",
	})
	require.NoError(t, err)
	for id, op := range map[string]string{"cmd": "run", "edit": "edit_file"} {
		_, _, err = j.Begin(journal.Key{ID: id, Op: op}, map[string]string{"command": "make"})
		require.NoError(t, err)
	}
	e, _ := j.Lookup("cmd")
	require.NoError(t, j.Close())
	logs := filepath.Join(opts.State, "logs")
	require.NoError(t, os.MkdirAll(logs, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(logs, string('0'+rune(e.Seq))+".stdout"), []byte("so far\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(logs, "77.stdout"), []byte("stray"), 0o600))

	s := start(t, opts)
	req := request("make")
	req.CallID = "cmd"
	c := run(t, s, req)
	require.Equal(t, guest.StatusLost, c.Status)
	require.Nil(t, c.ExitCode)
	require.Equal(t, "so far\n", string(c.Stdout.Head))
	require.True(t, output(t, s, "cmd", 0).EOF)
	require.Equal(t, guest.StatusLost, stop(t, s, "cmd", "").Status)
	_, err = s.EditFile(t.Context(), guest.EditFileRequest{CallID: "edit", Path: "f", OldStr: "a", NewStr: "b"})
	require.Equal(t, guest.CodeLost, guest.CodeOf(err))
	require.NoFileExists(t, filepath.Join(logs, "77.stdout"))
}

func TestRefused(t *testing.T) {
	s := start(t, options(t))
	req := request("touch never")
	res, err := s.Refuse(t.Context(), guest.RefuseRequest{CallID: req.CallID})
	require.NoError(t, err)
	require.True(t, res.Refused)
	_, err = s.Run(t.Context(), req)
	require.Equal(t, guest.CodeRefused, guest.CodeOf(err))
	_, err = s.WriteFile(t.Context(), guest.WriteFileRequest{CallID: req.CallID, Path: "never"})
	require.Equal(t, guest.CodeRefused, guest.CodeOf(err))
	ran := run(t, s, request("ls"))
	require.Empty(t, ran.Stdout.Head)
	res, err = s.Refuse(t.Context(), guest.RefuseRequest{CallID: ran.CallID})
	require.NoError(t, err)
	require.False(t, res.Refused)
}

func TestDuplicatesShareOneEffect(t *testing.T) {
	s := start(t, options(t))
	cmd := request("echo x >> log")
	write := guest.WriteFileRequest{CallID: callID(), Path: "f", Content: []byte("x"), Append: true}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			c, err := s.Run(t.Context(), cmd)
			if err != nil || c.Status != guest.StatusExited {
				t.Errorf("run: %+v %v", c, err)
			}
		})
		all.Go(func() {
			if _, err := s.WriteFile(t.Context(), write); err != nil {
				t.Errorf("write: %v", err)
			}
		})
	}
	all.Wait()
	require.Equal(t, "x\nx", sh(t, s, "cat log f"))
}

func TestMaxRunning(t *testing.T) {
	opts := options(t)
	opts.MaxRunning = 1
	s := start(t, opts)
	c := ready(t, s, "echo ready; read x")
	refused := request("true")
	_, err := s.Run(t.Context(), refused)
	require.Equal(t, guest.CodeExhausted, guest.CodeOf(err))
	stop(t, s, c.CallID, "")
	run(t, s, refused)
}
