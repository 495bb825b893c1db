package harness

import (
	"context"
	"net/http/httptrace"
	"testing"
	"time"
)

// Sent calls a tool and returns as soon as the request has left, whether the
// server lives to read it or not.
func (c *Client) Sent(t *testing.T, callID, tool string, args Args) *Pending {
	t.Helper()
	p := &Pending{done: make(chan struct{})}
	left := make(chan struct{}, 1)
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) {
			select {
			case left <- struct{}{}:
			default: // sent again, on another connection
			}
		},
	})
	began := time.Now()
	go func() {
		defer close(p.done)
		p.result, p.err = c.Try(ctx, callID, tool, args)
		p.took = time.Since(began)
	}()
	select {
	case <-left:
	case <-p.done:
	}
	return p
}

// Outcome waits for what came of the call, be it a broken connection.
func (p *Pending) Outcome() (Result, error) {
	<-p.done
	return p.result, p.err
}

// Until calls a tool under a call ID until there is a result that settles it: no
// broken connection, and none of the errors that ask to send the call again.
func (c *Client) Until(t *testing.T, callID, tool string, args Args) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		r, err := c.Try(ctx, callID, tool, args)
		switch {
		case ctx.Err() != nil:
			t.Fatalf("%s was not settled: %v %s", tool, err, r.Text)
		case err == nil && r.Code() != "DeadlineExceeded":
			return r
		}
	}
}
