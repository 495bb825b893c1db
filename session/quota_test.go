package session_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// world is what a quota counts: workflows, and visibility that knows them late.
type world struct {
	mu        sync.Mutex
	live      map[string]bool // false: has ended
	visible   []string
	looks     int
	listFails error
}

func (w *world) quota(most int) *session.Quota {
	return session.NewQuota(most,
		func(context.Context, string) ([]string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.visible), w.listFails
		},
		func(_ context.Context, id string) (found, live bool, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.looks++
			live, found = w.live[id]
			return found, live, nil
		})
}

func (w *world) start(q *session.Quota, owner, id string) error {
	return q.Admit(context.Background(), owner, id, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, there := w.live[id]; !there {
			w.live[id] = true
		}
		return nil
	})
}

func newWorld() *world { return &world{live: map[string]bool{}} }

func TestQuotaIsExact(t *testing.T) {
	w := newWorld()
	q := w.quota(3)
	var starts sync.WaitGroup
	var mu sync.Mutex
	failed := map[session.Code]int{}
	for i := range 20 {
		starts.Go(func() {
			err := w.start(q, "alice", fmt.Sprint("s", i))
			mu.Lock()
			defer mu.Unlock()
			failed[session.CodeOf(err)]++
		})
	}
	starts.Wait()
	require.Equal(t, map[session.Code]int{"": 3, session.ResourceExhausted: 17}, failed)
	require.Len(t, w.live, 3)
	require.NoError(t, w.start(q, "bob", "b1"), "another owner has places of its own")
}

func TestQuota(t *testing.T) {
	full := func(t *testing.T) (*world, *session.Quota) {
		t.Helper()
		w := newWorld()
		q := w.quota(2)
		require.NoError(t, w.start(q, "alice", "a"))
		require.NoError(t, w.start(q, "alice", "b"))
		return w, q
	}
	t.Run("the refusal says what to do", func(t *testing.T) {
		w, q := full(t)
		err := w.start(q, "alice", "c")
		require.Equal(t, session.ResourceExhausted, session.CodeOf(err))
		for _, part := range []string{"2 live sessions", "--max-sessions", "end_session", "list_sessions"} {
			require.ErrorContains(t, err, part)
		}
		require.NotContains(t, slices.Collect(maps.Keys(w.live)), "c")
	})
	t.Run("a start that is sent again", func(t *testing.T) {
		w, q := full(t)
		require.NoError(t, w.start(q, "alice", "a"))
		w.live["x"] = false // ended, started elsewhere: the start tells how it ended
		require.NoError(t, w.start(q, "alice", "x"))
	})
	t.Run("an end here", func(t *testing.T) {
		w, q := full(t)
		w.live["a"], w.visible = false, []string{"a", "b"} // visibility is late
		q.Ended("alice", "a")
		require.NoError(t, w.start(q, "alice", "c"))
		require.Error(t, w.start(q, "alice", "d"))
	})
	t.Run("an end elsewhere", func(t *testing.T) {
		w, q := full(t)
		w.live["b"] = false
		require.NoError(t, w.start(q, "alice", "c"))
	})
	t.Run("an end before there was one", func(t *testing.T) {
		w, q := full(t)
		delete(w.live, "b") // the start had failed after all
		require.NoError(t, w.start(q, "alice", "c"))
	})
	t.Run("sessions of before, and of other servers", func(t *testing.T) {
		w := newWorld()
		w.live["a"], w.live["b"], w.visible = true, true, []string{"a", "b"}
		q := w.quota(2)
		require.Error(t, w.start(q, "alice", "c"))
		w.visible = nil // a run continues as new and is in no listing for a moment
		require.Error(t, w.start(q, "alice", "c"))
	})
	t.Run("below the limit nothing is looked at", func(t *testing.T) {
		w, _ := full(t)
		require.Zero(t, w.looks)
	})
	t.Run("no limit", func(t *testing.T) {
		w := newWorld()
		w.listFails = errors.New("not asked")
		q := w.quota(0)
		for i := range 200 {
			require.NoError(t, w.start(q, "alice", fmt.Sprint("s", i)))
		}
	})
	t.Run("who cannot count starts nothing", func(t *testing.T) {
		w := newWorld()
		w.listFails = errors.New("away")
		require.ErrorContains(t, w.start(w.quota(2), "alice", "a"), "away")
		require.Empty(t, w.live)
	})
}

// A start that waits for its turn ends when its caller does.
func TestQuotaTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		q := w.quota(2)
		goOn := make(chan struct{})
		var first sync.WaitGroup
		first.Go(func() {
			_ = q.Admit(t.Context(), "alice", "a", func() error {
				<-goOn
				return nil
			})
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, q.Admit(ctx, "alice", "b", func() error { return nil }), context.DeadlineExceeded)
		close(goOn)
		first.Wait()
	})
}
