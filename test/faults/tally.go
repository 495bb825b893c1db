package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// tally counts what becomes of calls, and tells who waits for a success.
type tally struct {
	mu      sync.Mutex
	calls   int
	resent  int
	codes   map[string]int            // "code tool"
	lost    int                       // commands with status lost
	strange []string                  // messages of errors that nobody should meet
	waiting map[chan time.Time]string // of a success, on this session if it is one
}

func newTally() *tally {
	return &tally{codes: map[string]int{}, waiting: map[chan time.Time]string{}}
}

func (t *tally) again() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resent++
}

// settled counts a definite answer.
func (t *tally) settled(tool, sessionID string, code session.Code, r harness.Result) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	if tool == "run_command" && r.Str("status") == session.CommandLost {
		t.lost++
	}
	if code != "" {
		t.codes[string(code)+" "+tool]++
		if code == session.Lost {
			t.lost++
		}
		if code == session.Internal || code == session.InvalidArgument || code == session.PermissionDenied {
			t.strange = append(t.strange, fmt.Sprintf("%s on %s at %s: %s", tool, sessionID, session.Time(now), r.Text))
		}
		return
	}
	if !reachesSandbox(tool) {
		return
	}
	for ch, only := range t.waiting {
		if only == "" || only == sessionID {
			delete(t.waiting, ch)
			ch <- now
		}
	}
}

// reachesSandbox tells whether a success of this tool needs every part.
func reachesSandbox(tool string) bool {
	switch tool {
	case "run_command", "write_file", "edit_file", "stop_command":
		return true
	default:
		return false
	}
}

// success waits for the next success, of a session or of any, and gives how long
// it came after since.
func (t *tally) success(ctx context.Context, since time.Time, sessionID string) (time.Duration, bool) {
	ch := make(chan time.Time, 1)
	t.mu.Lock()
	t.waiting[ch] = sessionID
	t.mu.Unlock()
	select {
	case at := <-ch:
		return at.Sub(since), true
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.waiting, ch)
		return 0, false
	}
}

func (t *tally) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls
}
