package session

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// slots bounds how many calls of one workflow are with Temporal at once. The
// rest wait their turn, first come first served, up to a bound.
type slots struct {
	size, queue int

	mu   sync.Mutex
	lane map[string]*lane // by workflow ID; removed when nobody uses it
}

type lane struct {
	sem   *semaphore.Weighted // first come, first served
	users int                 // holding or waiting
}

func newSlots(size, queue int) *slots {
	return &slots{size: size, queue: queue, lane: map[string]*lane{}}
}

// acquire waits for a slot. Errors: ResourceExhausted when too many wait, ctx's.
func (s *slots) acquire(ctx context.Context, workflowID string) (release func(), err error) {
	s.mu.Lock()
	l := s.lane[workflowID]
	if l == nil {
		l = &lane{sem: semaphore.NewWeighted(int64(s.size))}
		s.lane[workflowID] = l
	}
	if l.users >= s.size+s.queue {
		s.mu.Unlock()
		return nil, Errorf(ResourceExhausted, "%d calls of this session are in progress or waiting; wait for some to end", l.users)
	}
	l.users++
	s.mu.Unlock()

	if err := l.sem.Acquire(ctx, 1); err != nil {
		s.leave(workflowID, l)
		return nil, Wrap(err, DeadlineExceeded, "the call waited its turn behind others of this session; send it again with the same call ID in _meta[%q]", MetaCallID)
	}
	return func() {
		l.sem.Release(1)
		s.leave(workflowID, l)
	}, nil
}

func (s *slots) leave(workflowID string, l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.lane, workflowID)
	}
}
