package docker

import (
	"context"
	"sync"
)

// commits knows which containers are paused because this process has them
// committed: nobody may wake those before their time, and nobody needs to. There
// is one commit of a container at a time, as the end of one wakes the container
// under the other.
type commits struct {
	mu    sync.Mutex
	ended map[string]chan struct{} // by container ID; closed at the commit's end
}

// begin waits for its turn; end must be called.
func (c *commits) begin(ctx context.Context, containerID string) (end func(), err error) {
	for {
		c.mu.Lock()
		if c.ended[containerID] == nil {
			break
		}
		c.mu.Unlock()
		c.wait(ctx, containerID)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = map[string]chan struct{}{}
	}
	ended := make(chan struct{})
	c.ended[containerID] = ended
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.ended, containerID)
		close(ended)
	}, nil
}

// under tells whether a container is being committed.
func (c *commits) under(containerID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended[containerID] != nil
}

// wait waits for the end of a container's commit; false when there is none, or
// ctx ends first.
func (c *commits) wait(ctx context.Context, containerID string) bool {
	c.mu.Lock()
	ended := c.ended[containerID]
	c.mu.Unlock()
	if ended == nil {
		return false
	}
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}
