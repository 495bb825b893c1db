package supervisor

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stream may end at the very moment at which its command's grace is over.
func TestStreamEndsWhileSettling(t *testing.T) {
	store, err := newLogStore(t.TempDir(), 1<<20, 1<<20)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 5000 {
			s, end, err := newStream(store, store.path(1, "stdout"))
			if err != nil {
				t.Error(err)
				return
			}
			var both sync.WaitGroup
			both.Go(s.pump)
			both.Go(func() { s.settle(time.Now()) })
			_ = end.Close()
			both.Wait()
		}
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		require.Fail(t, "pump and settle wait for each other")
	}
}
