package guest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Dial opens a byte stream to a guest. The client closes it; Close must make a
// blocked Read and Write return.
type Dial func(ctx context.Context) (io.ReadWriteCloser, error)

// ClientOptions tune a Client. Zero values are the defaults.
type ClientOptions struct {
	// ConnectTimeout bounds dialling and the hello. Default 15 s.
	ConnectTimeout time.Duration
	// PingAfter is how long a stream may be silent before it is pinged, and
	// PingTimeout how long the answer may take before the stream counts as
	// dead. Default 10 s and 10 s.
	PingAfter   time.Duration
	PingTimeout time.Duration
}

// Client is the host's end: it implements API over one stream, on which any
// number of requests run side by side. A dead or silent stream is found by
// pings and replaced for the next request. A request whose stream died is sent
// once more on a new one: every request either carries a call ID, and takes
// effect once, or only reads.
//
// Errors are *Error where a guest answered, the context's where that ended, and
// wrap ErrUnreachable otherwise.
type Client struct {
	fence Fence
	conns *connector

	mu     sync.Mutex
	conn   *conn
	closed bool
	dials  chan struct{} // holds a token while someone dials
}

var _ API = (*Client)(nil)

// NewClient makes a client for one incarnation of a session. It dials at the
// first request.
func NewClient(dial Dial, fence Fence, opts ClientOptions) *Client {
	opts.ConnectTimeout = cmp.Or(opts.ConnectTimeout, 15*time.Second)
	opts.PingAfter = cmp.Or(opts.PingAfter, 10*time.Second)
	opts.PingTimeout = cmp.Or(opts.PingTimeout, 10*time.Second)
	c := &Client{fence: fence, dials: make(chan struct{}, 1)}
	c.conns = newConnector(dial, opts, c.send)
	return c
}

// Hello connects if need be and returns what the guest said of itself.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return Hello{}, err
	}
	return conn.hello, nil
}

// Close closes the stream. Requests under way end with ErrUnreachable; what
// they started goes on. It may be called more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		c.conn.close()
		c.conn = nil
	}
	return nil
}

// connect returns the live connection, or makes one; the others wait for it.
func (c *Client) connect(ctx context.Context) (*conn, error) {
	select {
	case c.dials <- struct{}{}:
		defer func() { <-c.dials }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	live, closed := c.conn, c.closed
	c.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("%w: the client is closed", ErrUnreachable)
	}
	if live != nil && live.http.Err() == nil {
		return live, nil
	}
	if live != nil {
		live.close()
	}
	fresh, err := c.conns.open(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = fresh
	if err != nil {
		return nil, err
	}
	if c.closed {
		fresh.close()
		return nil, fmt.Errorf("%w: the client is closed", ErrUnreachable)
	}
	return fresh, nil
}

// drop closes a connection that failed a request, unless it was replaced.
func (c *Client) drop(dead *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dead.close()
	if c.conn == dead {
		c.conn = nil
	}
}

// call sends a request and decodes the answer, over at most two streams.
func call[Out any](ctx context.Context, c *Client, path string, in any) (out Out, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("encode request: %w", err)
	}
	for attempt := 1; ; attempt++ {
		conn, err := c.connect(ctx)
		if err != nil {
			return out, err
		}
		err = c.send(ctx, conn.http, path, body, &out)
		if err == nil || CodeOf(err) != "" || ctx.Err() != nil || errors.Is(err, errStrange) {
			return out, err
		}
		c.drop(conn)
		if attempt == 2 {
			return out, err
		}
	}
}

// send does one exchange. Any status but 200 and 400 is no answer of a guest.
func (c *Client) send(ctx context.Context, rt http.RoundTripper, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	c.fenceIn(req)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return unreachable(ctx, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return unreachable(ctx, path, err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		if err := json.Unmarshal(data, out); err != nil {
			return fmt.Errorf("%w: %s: %w: %w", ErrUnreachable, path, errStrange, err)
		}
		return nil
	case http.StatusBadRequest:
		gerr := &Error{}
		if err := json.Unmarshal(data, gerr); err == nil && gerr.Code != "" {
			return gerr
		}
	}
	return fmt.Errorf("%w: %s: %w: status %d", ErrUnreachable, path, errStrange, resp.StatusCode)
}

// errStrange: the stream is sound, but what came is no guest's answer. Another
// stream would not help, and the others need this one.
var errStrange = errors.New("unexpected answer")

// maxAnswer bounds an answer's JSON: two streams of MaxInline in base64.
const maxAnswer = 4 << 20

func unreachable(ctx context.Context, what string, err error) error {
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%s: %w", what, cause)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, what, err)
}

// Run implements API.
func (c *Client) Run(ctx context.Context, req RunRequest) (Command, error) {
	return call[Command](ctx, c, PathRun, req)
}

// Output implements API.
func (c *Client) Output(ctx context.Context, req OutputRequest) (OutputChunk, error) {
	return call[OutputChunk](ctx, c, PathOutput, req)
}

// Input implements API.
func (c *Client) Input(ctx context.Context, req InputRequest) (InputResult, error) {
	return call[InputResult](ctx, c, PathInput, req)
}

// Stop implements API.
func (c *Client) Stop(ctx context.Context, req StopRequest) (Command, error) {
	return call[Command](ctx, c, PathStop, req)
}

// Refuse implements API.
func (c *Client) Refuse(ctx context.Context, req RefuseRequest) (RefuseResult, error) {
	return call[RefuseResult](ctx, c, PathRefuse, req)
}

// ReadFile implements API.
func (c *Client) ReadFile(ctx context.Context, req ReadFileRequest) (File, error) {
	return call[File](ctx, c, PathReadFile, req)
}

// WriteFile implements API.
func (c *Client) WriteFile(ctx context.Context, req WriteFileRequest) (WriteResult, error) {
	return call[WriteResult](ctx, c, PathWriteFile, req)
}

// EditFile implements API.
func (c *Client) EditFile(ctx context.Context, req EditFileRequest) (EditResult, error) {
	return call[EditResult](ctx, c, PathEditFile, req)
}

// Usage implements API.
func (c *Client) Usage(ctx context.Context) (Usage, error) {
	return call[Usage](ctx, c, PathUsage, struct{}{})
}
