package supervisor

import (
	"context"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
)

// find returns a command that has started.
func (s *Supervisor) find(ctx context.Context, id string) (*command, error) {
	s.mu.Lock()
	c := s.commands[id]
	s.mu.Unlock()
	if c == nil {
		return nil, guest.Errorf(guest.CodeNotFound, "no command %.140q in this sandbox", id)
	}
	select {
	case <-c.started:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c.startErr != nil {
		return nil, guest.Errorf(guest.CodeNotFound, "command %s was never started: %s", id, c.startErr.Message)
	}
	return c, nil
}

// Output implements guest.API. A negative offset before the start is the start;
// one past the end gives no data.
func (s *Supervisor) Output(ctx context.Context, req guest.OutputRequest) (guest.OutputChunk, error) {
	for _, e := range []*guest.Error{
		within("max_bytes", int64(req.MaxBytes), guest.MaxInline),
		within("wait_ms", req.WaitMS, guest.MaxWaitMS),
	} {
		if e != nil {
			return guest.OutputChunk{}, e
		}
	}
	c, err := s.find(ctx, req.CallID)
	if err != nil {
		return guest.OutputChunk{}, err
	}
	var st *stream
	switch req.Stream {
	case guest.Stdout, "":
		st = c.out
	case guest.Stderr:
		st = c.err
	default:
		return guest.OutputChunk{}, guest.Errorf(guest.CodeInvalid, "stream %.40q is neither stdout nor stderr", req.Stream)
	}
	if st.gone.Load() {
		return guest.OutputChunk{}, guest.Errorf(guest.CodeNotFound,
			"the output of command %s is no longer kept: newer output took its place", req.CallID)
	}
	offset := req.Offset
	if offset < 0 {
		offset = max(0, st.counts().Logged+offset)
	}
	c.awaitOutput(ctx, st, offset, time.Duration(req.WaitMS)*time.Millisecond)
	return c.read(st, offset, req.MaxBytes)
}

// awaitOutput waits for bytes past offset, or the command's end.
func (c *command) awaitOutput(ctx context.Context, st *stream, offset int64, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		changed := st.watch()
		if st.counts().Logged > offset {
			return
		}
		select {
		case <-changed:
		case <-c.done:
			return
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (c *command) read(st *stream, offset int64, maxBytes int) (guest.OutputChunk, error) {
	state := c.snapshot() // before the counts: EOF must not miss bytes
	logged := st.counts().Logged
	chunk := guest.OutputChunk{Command: state, Offset: offset}
	var gerr *guest.Error
	if chunk.Data, gerr = st.slice(offset, min(int64(maxBytes), logged-offset)); gerr != nil {
		return guest.OutputChunk{}, gerr
	}
	chunk.EOF = state.Status.Final() && offset+int64(len(chunk.Data)) >= logged
	return chunk, nil
}

// Input implements guest.API. What it reports as written waits for the command
// in order; whether the command reads it, nobody can tell.
func (s *Supervisor) Input(ctx context.Context, req guest.InputRequest) (guest.InputResult, error) {
	if len(req.Data) > guest.MaxInline {
		return guest.InputResult{}, tooLarge("data", len(req.Data))
	}
	c, err := s.find(ctx, req.CommandID)
	if err != nil {
		return guest.InputResult{}, err
	}
	key := journal.Key{ID: req.CallID, Op: opInput, Digest: req.ArgsDigest}
	return once(ctx, s, key, func(context.Context) (guest.InputResult, *guest.Error) {
		select {
		case <-c.done:
			return guest.InputResult{}, guest.Errorf(guest.CodePrecondition, "command %s has ended", c.id)
		default:
		}
		if c.in == nil {
			return guest.InputResult{}, guest.Errorf(guest.CodePrecondition,
				"command %s was started without an open stdin: only a background command has one", c.id)
		}
		if gerr := c.in.write(req.Data, req.Close); gerr != nil {
			return guest.InputResult{}, gerr
		}
		return guest.InputResult{Written: len(req.Data)}, nil
	})
}
