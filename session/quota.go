package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	workflowpb "go.temporal.io/api/workflow/v1"
)

// quota bounds the live sessions of one owner. It is exact for the starts that go
// through one Client. Of those that go through others it learns by visibility,
// a moment late: Clients that start at the same moment may admit the limit each.
type quota struct {
	max int // 0 is no limit
	// listed gives the IDs of an owner's live sessions as visibility has them.
	listed func(ctx context.Context, owner string) ([]string, error)
	// look asks for one session's workflow itself, which is never late.
	look func(ctx context.Context, sessionID string) (found, live bool, err error)

	mu     sync.Mutex
	owners map[string]*holdings
}

// holdings are what is known of one owner: every live session that this process
// started or saw, and some that have ended since.
type holdings struct {
	turn chan struct{} // held by whoever counts and starts
	mu   sync.Mutex
	ids  map[string]bool
}

func (h *holdings) add(ids ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		h.ids[id] = true
	}
}

func (h *holdings) remove(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ids, id)
}

func (h *holdings) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]string, 0, len(h.ids))
	for id := range h.ids {
		ids = append(ids, id)
	}
	return ids
}

func (q *quota) of(owner string) *holdings {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.owners[owner]
	if h == nil {
		h = &holdings{turn: make(chan struct{}, 1), ids: map[string]bool{}}
		if q.owners == nil {
			q.owners = map[string]*holdings{}
		}
		q.owners[owner] = h
	}
	return h
}

// admit calls start if the owner has a place for one more session, or if the
// session is there already: a start that is sent again finds its session,
// whatever the number. Starts of one owner go one after the other.
func (q *quota) admit(ctx context.Context, owner, sessionID string, start func() error) error {
	if q.max == 0 {
		return start()
	}
	h := q.of(owner)
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	listed, err := q.listed(ctx, owner)
	if err != nil {
		return err
	}
	h.add(listed...)
	known := h.all()
	if !slices.Contains(known, sessionID) && len(known) >= q.max {
		found, _, err := q.look(ctx, sessionID)
		if err != nil {
			return err
		}
		if found {
			return start()
		}
		live, err := q.count(ctx, h, known)
		if err != nil {
			return err
		}
		if live >= q.max {
			return Errorf(ResourceExhausted, "you have %d live sessions, as many as the server allows one owner (--max-sessions): "+
				"end one with end_session (list_sessions shows them), or go on with one of them", live)
		}
	}
	h.add(sessionID) // before it is certain: an error may hide a success, and count looks again
	return start()
}

// count looks at each known session and forgets those that have ended.
func (q *quota) count(ctx context.Context, h *holdings, known []string) (int, error) {
	live := 0
	for _, id := range known {
		_, is, err := q.look(ctx, id)
		switch {
		case err != nil:
			return 0, err
		case is:
			live++
		default:
			h.remove(id)
		}
	}
	return live, nil
}

// ended frees a session's place.
func (q *quota) ended(owner, sessionID string) {
	if q.max != 0 {
		q.of(owner).remove(sessionID)
	}
}

// liveSessions lists an owner's live sessions as visibility has them.
func (c *Client) liveSessions(ctx context.Context, owner string) ([]string, error) {
	query := fmt.Sprintf("WorkflowType = '%s' AND %s AND ExecutionStatus = 'Running'", WorkflowType, is(AttrOwner, owner))
	var ids []string
	err := c.list(ctx, query, 0, func(e *workflowpb.WorkflowExecutionInfo) {
		ids = append(ids, strings.TrimPrefix(e.GetExecution().GetWorkflowId(), WorkflowIDPrefix))
	})
	return ids, err
}

// lookAt tells whether a session's workflow exists, and whether it still runs.
func (c *Client) lookAt(ctx context.Context, sessionID string) (found, live bool, err error) {
	d, err := c.temporal.DescribeWorkflow(ctx, WorkflowIDPrefix+sessionID, "")
	switch {
	case closed(err):
		return false, false, nil
	case err != nil:
		return false, false, err
	}
	return true, runs(d.Status), nil
}
