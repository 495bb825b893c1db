package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/internal/rpcline"
)

const (
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
	// A connection that held so long is no sign of a server that keeps breaking.
	steady = 5 * time.Second
	// handshakeWithin bounds the replay of initialize.
	handshakeWithin = 30 * time.Second
)

// connections keeps a connection as long as one is needed.
func (r *relay) connections(ctx context.Context) error {
	stream, err := r.opts.Connect(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it is over
		}
		return err
	}
	if r.opts.Prepare != nil {
		go r.prepare(ctx)
	}
	pause := firstPause
	for {
		began := time.Now()
		r.serve(ctx, stream)
		if time.Since(began) > steady {
			pause = firstPause
		} else if !sleep(ctx, pause) {
			return nil
		} else {
			pause = min(2*pause, lastPause)
		}
		r.refuse(func(q *request) bool { return q.sends >= maxSends },
			fmt.Sprintf("the server broke %d times while this request was there; look at its log", maxSends))
		if stream, err = r.reconnect(ctx); err != nil {
			return nil //nolint:nilerr // it is over
		}
	}
}

// reconnect waits until a connection is needed and makes one. The error is ctx's.
func (r *relay) reconnect(ctx context.Context) (io.ReadWriteCloser, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.wanted:
		}
		limited, cancel := context.WithTimeout(ctx, r.opts.GiveUp)
		stream, err := r.try(limited)
		cancel()
		if err == nil {
			return stream, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.opts.Logger.Error("no server can be reached; trying again at the next request", "error", err)
		r.refuse(nil, fmt.Sprintf("no mcp-sandbox server could be reached or started (%v); mcp-sandbox doctor finds out why", err))
	}
}

// try makes a connection, again and again as long as ctx allows. The error is the
// last attempt's.
func (r *relay) try(ctx context.Context) (io.ReadWriteCloser, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		stream, err := r.opts.Connect(ctx)
		if err == nil {
			if err = r.replay(ctx, stream); err == nil {
				return stream, nil
			}
			_ = stream.Close()
		}
		r.opts.Logger.Warn("the server cannot be reached yet", "error", err)
		if !sleep(ctx, pause) {
			return nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// replay opens the client's MCP session again on a new connection, if it had one.
func (r *relay) replay(ctx context.Context, stream io.ReadWriteCloser) error {
	r.mu.Lock()
	initialize, initialized, id := r.initialize, r.initialized, r.initializeID
	r.mu.Unlock()
	if initialize == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer stop()
	if _, err := stream.Write(append(slices.Clip(initialize), '\n')); err != nil {
		return fmt.Errorf("open the MCP session again: %w", err)
	}
	if err := readAnswer(stream, id); err != nil {
		return fmt.Errorf("open the MCP session again: %w", err)
	}
	if !stop() {
		return context.Cause(ctx)
	}
	if initialized == nil {
		return nil
	}
	if _, err := stream.Write(append(slices.Clip(initialized), '\n')); err != nil {
		return fmt.Errorf("open the MCP session again: %w", err)
	}
	return nil
}

// readAnswer reads up to the answer to a request and no further: nothing else was
// asked yet, so that nothing follows it.
func readAnswer(stream io.Reader, id string) error {
	in := rpcline.NewReader(stream, 0)
	for {
		line, err := in.Next()
		if err != nil {
			return err
		}
		m, err := rpcline.Parse(line)
		if err != nil {
			return err
		}
		if m.IsResponse() && string(m.ID) == id {
			return nil
		}
	}
}

// serve uses a connection until it breaks.
func (r *relay) serve(ctx context.Context, stream io.ReadWriteCloser) {
	l := newLink(stream)
	defer l.close()
	defer context.AfterFunc(ctx, l.close)()
	r.mu.Lock()
	select {
	case <-r.wanted: // here it is
	default:
	}
	r.link = l
	for _, q := range r.pending {
		r.sendRequest(q)
	}
	r.mu.Unlock()

	in := rpcline.NewReader(stream, maxAnswer)
	for {
		line, err := in.Next()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, io.EOF) {
				r.opts.Logger.Debug("the connection to the server broke", "error", err)
			}
			break
		}
		r.fromServer(line)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.link = nil
	if len(r.pending) > 0 {
		r.want()
	}
}

// maxAnswer is the longest line of a server that is passed on: more than any
// tool's result.
const maxAnswer = 64 << 20

// prepare does what must be done before the first tools/call.
func (r *relay) prepare(ctx context.Context) {
	err := r.opts.Prepare(ctx)
	if err != nil {
		r.refuse(func(q *request) bool { return q.call }, err.Error())
		r.fail(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepared = true
	for _, q := range r.pending {
		if q.call && q.sends == 0 && r.link != nil {
			r.sendRequest(q)
		}
	}
}
