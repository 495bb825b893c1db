package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Who came first goes first.
func TestSlotsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := session.NewSlots(1, 1, 10)
		release, err := slots.Acquire(t.Context(), "w", true)
		require.NoError(t, err)
		var order []int
		for i := range 5 {
			go func() {
				release, err := slots.Acquire(t.Context(), "w", true)
				if err != nil {
					return
				}
				order = append(order, i)
				release()
			}()
			synctest.Wait() // it waits its turn
		}
		release()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4}, order)
		require.Equal(t, -1, slots.Users("w"), "nothing is kept of a session without calls")
	})
}

func TestSlotsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := session.NewSlots(2, 1, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			_, err := slots.Acquire(ctx, "w", true)
			require.NoError(t, err)
		}
		waiting := make(chan error, 4)
		for range 4 {
			go func() {
				_, err := slots.Acquire(ctx, "w", true)
				waiting <- err
			}()
		}
		synctest.Wait()
		_, err := slots.Acquire(ctx, "w", true)
		require.Equal(t, session.ResourceExhausted, session.CodeOf(err))
		require.ErrorContains(t, err, "6 calls of this session are in progress or waiting")
		_, err = slots.Acquire(ctx, "other", true)
		require.NoError(t, err, "one session does not slow another")
		cancel()
		for range 4 {
			require.ErrorIs(t, <-waiting, context.Canceled)
		}
		require.Equal(t, 2, slots.Users("w"))
	})
}

// Calls that wait for long leave room for those that stop and read.
func TestSlotsForCallsThatDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := session.NewSlots(2, 1, 10)
		for range 2 {
			_, err := slots.Acquire(t.Context(), "w", true)
			require.NoError(t, err)
		}
		stop, err := slots.Acquire(t.Context(), "w", false)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = slots.Acquire(ctx, "w", false)
		require.Equal(t, session.DeadlineExceeded, session.CodeOf(err), "the spare slots are bounded too")
		stop()
		_, err = slots.Acquire(t.Context(), "w", false)
		require.NoError(t, err)
	})
}

func TestIDs(t *testing.T) {
	secret := []byte("secret")
	id := session.MakeSessionID(secret, "owner", "c_1")
	require.NoError(t, session.CheckSessionID(id))
	require.Equal(t, id, session.MakeSessionID(secret, "owner", "c_1"), "a retried start finds its session")
	seen := map[string]bool{
		id: true,
		// Owner and call ID do not run into one another.
		session.MakeSessionID(secret, "ownerc", "_1"):          true,
		session.MakeSessionID(secret, "other", "c_1"):          true,
		session.MakeSessionID([]byte("other"), "owner", "c_1"): true,
		session.MakeSessionID(secret, "owner", "c_2"):          true,
	}
	require.Len(t, seen, 5)

	snap := session.MakeSnapshotID(id, "c_1")
	require.NoError(t, session.CheckSnapshotID(snap))
	require.NotEqual(t, snap, session.MakeSnapshotID(id, "c_2"))
	for _, bad := range []string{"", "s_", snap, "s_ABC", id + "x", "s_" + id, "session/" + id, "s_'; DROP TABLE sessions"} {
		require.Equal(t, session.NotFound, session.CodeOf(session.CheckSessionID(bad)), bad)
	}
	require.Equal(t, session.NotFound, session.CodeOf(session.CheckSnapshotID(id)))

	a, b := session.NewCallID(), session.NewCallID()
	require.NoError(t, session.CheckCallID(a))
	require.NotEqual(t, a, b)
	require.Less(t, a[:10], b[:10]+"~", "time-ordered")
	for _, bad := range []string{"", "a b", "ä", fmt.Sprintf("%0129d", 0), "a/b", "a\n"} {
		require.Equal(t, session.InvalidArgument, session.CodeOf(session.CheckCallID(bad)), "%q", bad)
	}
}
