package session

import "context"

// For the tests of package session_test.

// Slots is what bounds the calls of a workflow.
type Slots struct{ s *slots }

func NewSlots(size, spare, queue int) Slots { return Slots{newSlots(size, spare, queue)} }

func (s Slots) Acquire(ctx context.Context, workflowID string, waits bool) (func(), error) {
	return s.s.acquire(ctx, workflowID, waits)
}

// Users is how many calls hold or wait for a slot, -1 when nothing is kept.
func (s Slots) Users(workflowID string) int {
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	if l := s.s.lane[workflowID]; l != nil {
		return l.users
	}
	return -1
}

// Quota is what bounds the live sessions of an owner.
type Quota struct{ q *quota }

func NewQuota(most int, listed func(context.Context, string) ([]string, error), look func(context.Context, string) (bool, bool, error)) *Quota {
	return &Quota{&quota{max: most, listed: listed, look: look}}
}

func (q *Quota) Admit(ctx context.Context, owner, sessionID string, start func() error) error {
	return q.q.admit(ctx, owner, sessionID, start)
}

func (q *Quota) Ended(owner, sessionID string) { q.q.ended(owner, sessionID) }
