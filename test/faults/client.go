package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

const (
	// attemptTimeout is over the 55 s within which a server answers. A shorter one
	// would be a cancellation: on this revision of MCP a client that closes its
	// response stream interrupts the command.
	attemptTimeout = 90 * time.Second
	// The pause between attempts that met no server.
	firstPause = 20 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// caller sends calls under their call IDs until the answer is definite, as the
// messages of errors ask their reader to do.
type caller struct {
	mcp   *harness.Client
	tally *tally
}

// answer is a definite answer.
type answer struct {
	harness.Result
	code session.Code // "" is a success
}

// call returns an error only when ctx ended before there was an answer.
func (c *caller) call(ctx context.Context, callID, tool string, args harness.Args) (answer, error) {
	pause, last := firstPause, ""
	for attempt := 0; ; attempt++ {
		actx, cancel := context.WithTimeout(ctx, attemptTimeout)
		r, err := c.mcp.Try(actx, callID, tool, args)
		cancel()
		code := session.Code(r.Code())
		switch {
		case err != nil:
			last = err.Error()
		case code == session.DeadlineExceeded:
			last, pause = r.Text, firstPause
		default:
			sessionID, _ := args["session_id"].(string)
			c.tally.settled(tool, sessionID, code, r)
			return answer{r, code}, nil
		}
		c.tally.again()
		select {
		case <-ctx.Done():
			return answer{}, fmt.Errorf("%s %s: no definite answer after %d attempts, last: %s", tool, callID, attempt+1, last)
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}
