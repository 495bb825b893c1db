package session

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

// slots bounds how many calls of one workflow are with Temporal at once. The
// rest wait their turn, first come first served, up to a bound. Calls that wait
// in the session for long leave some slots to the others.
type slots struct {
	size, spare, queue int

	mu   sync.Mutex
	lane map[string]*lane // by workflow ID; removed when nobody uses it
}

type lane struct {
	main  *semaphore.Weighted // first come, first served
	spare *semaphore.Weighted // for calls that do not wait
	users int                 // holding or waiting
}

func newSlots(size, spare, queue int) *slots {
	return &slots{size: size, spare: spare, queue: queue, lane: map[string]*lane{}}
}

// acquire waits for a slot. waits says that the call may hold it for long.
// Errors: ResourceExhausted when too many wait, DeadlineExceeded or
// context.Canceled when ctx ends.
func (s *slots) acquire(ctx context.Context, workflowID string, waits bool) (release func(), err error) {
	s.mu.Lock()
	l := s.lane[workflowID]
	if l == nil {
		l = &lane{main: semaphore.NewWeighted(int64(s.size)), spare: semaphore.NewWeighted(int64(s.spare))}
		s.lane[workflowID] = l
	}
	if l.users >= s.size+s.spare+s.queue {
		s.mu.Unlock()
		return nil, Errorf(ResourceExhausted, "%d calls of this session are in progress or waiting; wait for some to end", l.users)
	}
	l.users++
	s.mu.Unlock()

	sem := l.main
	if !waits {
		if sem.TryAcquire(1) {
			return s.releaser(workflowID, l, sem), nil
		}
		sem = l.spare
	}
	switch err := sem.Acquire(ctx, 1); {
	case err == nil:
		return s.releaser(workflowID, l, sem), nil
	case errors.Is(err, context.Canceled):
		s.leave(workflowID, l)
		return nil, err // explain knows whose doing it was
	default:
		s.leave(workflowID, l)
		return nil, Wrap(err, DeadlineExceeded, "the call waited its turn behind others of this session; send it again with the same call ID in _meta[%q]", MetaCallID)
	}
}

func (s *slots) releaser(workflowID string, l *lane, sem *semaphore.Weighted) func() {
	return func() {
		sem.Release(1)
		s.leave(workflowID, l)
	}
}

func (s *slots) leave(workflowID string, l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.lane, workflowID)
	}
}
