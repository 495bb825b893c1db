package supervisor_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/supervisor"
)

func TestFiles(t *testing.T) {
	s := start(t, options(t))
	write := guest.WriteFileRequest{CallID: callID(), Path: "d/f", Content: []byte("one\ntwo\n")}
	made, err := s.WriteFile(t.Context(), write)
	require.NoError(t, err)
	require.True(t, made.Created)
	edit := guest.EditFileRequest{CallID: callID(), Path: "d/f", OldStr: "two", NewStr: "2"}
	edited, err := s.EditFile(t.Context(), edit)
	require.NoError(t, err)
	again, err := s.EditFile(t.Context(), edit)
	require.NoError(t, err, "recorded, not done again")
	require.Equal(t, edited, again)
	f, err := s.ReadFile(t.Context(), guest.ReadFileRequest{Path: "d/f", MaxBytes: 1000})
	require.NoError(t, err)
	require.Equal(t, "one\n2\n", string(f.Content))
	_, err = s.ReadFile(t.Context(), guest.ReadFileRequest{Path: "none", MaxBytes: 1000})
	require.Equal(t, guest.CodeNotFound, guest.CodeOf(err))
	_, err = s.WriteFile(t.Context(), guest.WriteFileRequest{CallID: callID(), Path: "big", Content: make([]byte, guest.MaxInline+1)})
	require.Equal(t, guest.CodeTooLarge, guest.CodeOf(err))
	_, err = s.WriteFile(t.Context(), guest.WriteFileRequest{CallID: callID(), Path: "fits", Content: make([]byte, guest.MaxInline)})
	require.NoError(t, err)
}

func TestFileOpWithoutAnswer(t *testing.T) {
	opts := options(t)
	opts.FileTimeout = 50 * time.Millisecond
	opts.FileOp = []string{"/bin/sleep", mark()}
	s := start(t, opts)
	began := time.Now()
	_, err := s.ReadFile(t.Context(), guest.ReadFileRequest{Path: "f", MaxBytes: 10})
	require.Equal(t, guest.CodeExhausted, guest.CodeOf(err))
	req := guest.WriteFileRequest{CallID: callID(), Path: "f", Content: make([]byte, guest.MaxInline)}
	for range 2 {
		_, err = s.WriteFile(t.Context(), req)
		require.Equal(t, guest.CodeLost, guest.CodeOf(err), "it may have been written")
	}
	require.Less(t, time.Since(began), 2*time.Second)
	require.False(t, alive(opts.FileOp[1]))
}

// With a real identity switch, as in a sandbox.
func TestIdentity(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user: run the tests as root, or see TestContainer in cmd/sandbox-guest")
	}
	opts := options(t)
	opts.Home = "/tmp"
	opts.Identity = &supervisor.Identity{UID: 1000, GID: 1000}
	s := start(t, opts)
	require.Equal(t, "1000 1000\n", sh(t, s, "echo $(id -u) $(id -g)"))
	require.Equal(t, "2\n", sh(t, s, "set -- $(id -G); echo $#"), "its own group and the tag")
	require.Empty(t, sh(t, s, "ls "+filepath.Dir(opts.State)+" 2>/dev/null; cat "+opts.State+"/journal 2>/dev/null"))
	for range 20 { // the mark may come a moment after the start, for children too
		require.Equal(t, "500\n", sh(t, s, "until grep -q 500 /proc/self/oom_score_adj; do :; done; echo 500"))
		require.Equal(t, "500\n", sh(t, s, "sleep 9 & until grep 500 /proc/$!/oom_score_adj; do :; done; kill $!"))
	}
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	require.NoError(t, err)
	require.Equal(t, "0\n", string(own))

	m := mark()
	req := request("setsid sh -c 'trap \"\" TERM; sleep " + m + "' & sleep " + m)
	req.TimeoutMS = 100
	require.Equal(t, guest.StatusTimedOut, run(t, s, req).Status)
	require.False(t, alive(m))
	req = request("true")
	req.Cwd = filepath.Dir(opts.State)
	_, err = s.Run(t.Context(), req)
	require.Equal(t, guest.CodePermission, guest.CodeOf(err))
}

// Each change of a file that was acknowledged is in it, however many come at once.
func TestChangesOfOneFile(t *testing.T) {
	s := start(t, options(t))
	_, err := s.WriteFile(t.Context(), guest.WriteFileRequest{CallID: callID(), Path: "f", Content: []byte("end\n")})
	require.NoError(t, err)
	const callers, calls = 6, 10
	var all sync.WaitGroup
	errs := make([]error, callers)
	for i := range callers {
		all.Go(func() {
			for n := range calls {
				line := fmt.Sprintf("%d-%d\n", i, n)
				var err error
				if i == 0 {
					_, err = s.WriteFile(t.Context(), guest.WriteFileRequest{CallID: callID(), Path: "./f", Content: []byte(line), Append: true})
				} else {
					_, err = s.EditFile(t.Context(), guest.EditFileRequest{CallID: callID(), Path: "f", OldStr: "end\n", NewStr: line + "end\n"})
				}
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	f, err := s.ReadFile(t.Context(), guest.ReadFileRequest{Path: "f", MaxBytes: 10000})
	require.NoError(t, err)
	for i := range callers {
		for n := range calls {
			require.Contains(t, string(f.Content), fmt.Sprintf("%d-%d\n", i, n))
		}
	}
}

// A command that has ended before it is marked holds nobody up: its files in
// /proc are root's, as those of one that is about to start.
func TestEndsBeforeItsMark(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user: run the tests as root, or see TestContainer in cmd/sandbox-guest")
	}
	opts := options(t)
	opts.Home = "/tmp"
	opts.Identity = &supervisor.Identity{UID: 1000, GID: 1000}
	s := start(t, opts)
	slow := 0
	for range 100 {
		began := time.Now()
		run(t, s, request("true"))
		if time.Since(began) > 150*time.Millisecond {
			slow++
		}
	}
	require.Less(t, slow, 10)
}
