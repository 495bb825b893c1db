package e2e_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// A thousand calls and fifty sessions leave nothing behind: the second half costs
// what the first half did.
func TestNothingGrows(t *testing.T) { // not parallel: it sets TMPDIR, and measures
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := harness.Start(t)
	c := s.Client()
	id := c.StartSession(t, nil)
	work := func(round int) {
		var failed sync.Map
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := w; i < 500; i += 8 {
					tool, args := "run_command", harness.Args{"session_id": id, "command": "echo x"}
					switch i % 5 {
					case 0:
						tool, args = "write_file", harness.Args{"session_id": id, "path": "f", "content": fmt.Sprint(round, i)}
					case 1:
						tool, args = "read_file", harness.Args{"session_id": id, "path": "/etc/passwd"}
					case 2:
						args["wait_seconds"] = 0
					case 3:
						tool, args = "get_session", harness.Args{"session_id": id}
					}
					if r, err := c.Try(t.Context(), "", tool, args); err != nil || r.IsError {
						failed.Store(i, fmt.Sprint(tool, r.Text, err))
					}
				}
			})
		}
		for w := range 4 {
			wg.Go(func() {
				for i := w; i < 25; i += 4 {
					started, err := c.Try(t.Context(), "", "start_session", nil)
					ended, err2 := c.Try(t.Context(), "", "end_session", harness.Args{"session_id": started.Str("session_id")})
					if err != nil || err2 != nil || started.IsError || ended.IsError {
						failed.Store(-1-i, fmt.Sprint(started.Text, ended.Text, err, err2))
					}
				}
			})
		}
		wg.Wait()
		failed.Range(func(_, what any) bool {
			t.Errorf("%s", what)
			return true
		})
	}
	began := time.Now()
	work(0)
	first := s.Footprint(t, temp)
	work(1)
	// What is closed in the background is given a moment.
	var second harness.Footprint
	require.Eventually(t, func() bool {
		second = s.Footprint(t, temp)
		return second.Descriptors <= first.Descriptors+8 && second.Goroutines <= first.Goroutines+50 && second.Children <= first.Children
	}, 10*time.Second, 100*time.Millisecond, "%+v\n%+v", first, second)
	t.Logf("1,000 calls and 50 sessions in %s: %+v, then %+v", time.Since(began), first, second)
	require.Zero(t, second.TempFiles)
	require.LessOrEqual(t, second.Threads, first.Threads+8)
	require.LessOrEqual(t, second.RSSKiB, first.RSSKiB+(100<<10))
	held := s.Holdings(t, "", "")
	held.Images = 0 // the test image's derived one
	require.Equal(t, harness.Holdings{Containers: 1, Volumes: 1, Execs: 1}, held)
}
