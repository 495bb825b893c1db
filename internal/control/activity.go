package control

import (
	"context"
	"sync"
	"time"
)

// Activity knows whether a server is in use. The zero value is not; its time
// begins with the first call of a method.
type Activity struct {
	mu   sync.Mutex
	open int
	last time.Time
}

// Begin says that something uses the server until done is called.
func (a *Activity) Begin() (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open++
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.open--
		a.last = time.Now()
	})
}

// idle is how long nothing has used the server; 0 while something does.
func (a *Activity) idle() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open > 0 {
		return 0
	}
	if a.last.IsZero() {
		a.last = time.Now()
	}
	return time.Since(a.last)
}

// slowest is how long it may take to see that the last session has ended.
const slowest = time.Minute

// AwaitIdle returns nil when nothing has used the server for d and no session
// lives, or ctx's error. live asks for the latter; while it fails the server
// stays.
func (a *Activity) AwaitIdle(ctx context.Context, d time.Duration, live func(context.Context) (bool, error)) error {
	for {
		wait := d - a.idle()
		if wait <= 0 {
			if alive, err := live(ctx); err == nil && !alive && a.idle() >= d {
				return nil
			}
			wait = min(d, slowest)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}
