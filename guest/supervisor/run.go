package supervisor

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
)

// maxText is how much of a command's text is kept for listings.
const maxText = 200

// Run implements guest.API.
func (s *Supervisor) Run(ctx context.Context, req guest.RunRequest) (guest.Command, error) {
	c, err := s.attach(req)
	if err != nil {
		return guest.Command{}, err
	}
	select {
	case <-c.started:
	case <-ctx.Done():
		return guest.Command{}, ctx.Err()
	}
	if c.startErr != nil {
		return guest.Command{}, c.startErr
	}
	c.await(ctx, time.Duration(req.WaitMS)*time.Millisecond)
	state, err := c.answer(req.MaxOutput)
	if state.Status == guest.StatusRunning {
		state.RunningMS = max(0, s.opts.Now().UnixMilli()-state.StartedUnixMS)
	}
	return state, err
}

// answer is a snapshot with head and tail of both streams.
func (c *command) answer(maxBytes int) (guest.Command, error) {
	state := c.snapshot()
	for name, st := range map[*guest.Stream]*stream{&state.Stdout: c.out, &state.Stderr: c.err} {
		cut, gerr := st.cut(maxBytes)
		if gerr != nil {
			return guest.Command{}, gerr
		}
		*name = cut
	}
	return state, nil
}

// attach finds the command of a call ID, or starts it. Everything that can be
// refused is refused before the call has begun.
func (s *Supervisor) attach(req guest.RunRequest) (*command, error) {
	if gerr := checkRun(req); gerr != nil {
		return nil, gerr
	}
	if gerr := s.enter(); gerr != nil {
		return nil, gerr
	}
	defer s.work.Done()
	key := journal.Key{ID: req.CallID, Op: opRun, Digest: req.ArgsDigest}
	if _, known := s.journal.Lookup(req.CallID); known {
		c, _, err := s.begin(key, req)
		return c, err
	}
	plan, gerr := s.plan(req)
	if gerr != nil {
		return nil, gerr
	}
	c, fresh, err := s.begin(key, req)
	if err != nil || !fresh {
		return c, err
	}
	s.launch(c, plan)
	return c, nil
}

// begin journals a command and registers it, in one step for all others.
func (s *Supervisor) begin(key journal.Key, req guest.RunRequest) (c *command, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commands[key.ID] == nil && s.running >= s.opts.MaxRunning {
		return nil, false, guest.Errorf(guest.CodeExhausted,
			"%d commands run in this sandbox, which is the most: stop one", s.running)
	}
	text := prefix(req.Command, maxText)
	entry, fresh, err := s.journal.Begin(key, runDetail{Command: text})
	if err != nil {
		return nil, false, beginError(err)
	}
	if !fresh {
		if c := s.commands[key.ID]; c != nil {
			return c, false, nil
		}
		if gerr := standing(entry); gerr != nil {
			return nil, false, gerr
		}
		return nil, false, guest.Errorf(guest.CodeInternal, "call %s is known, but its command is not", key.ID)
	}
	c = &command{
		id: key.ID, seq: entry.Seq, tag: s.tracker.tag(entry.Seq), text: text,
		timeout: time.Duration(req.TimeoutMS) * time.Millisecond,
		started: make(chan struct{}), done: make(chan struct{}),
		state: guest.Command{CallID: key.ID, Status: guest.StatusRunning, StartedUnixMS: entry.UnixMS},
	}
	s.commands[key.ID] = c
	s.running++
	return c, true, nil
}

// prefix cuts text at a rune's boundary.
func prefix(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

func checkRun(req guest.RunRequest) *guest.Error {
	switch {
	case !guest.ValidCallID(req.CallID):
		return invalidID(req.CallID)
	case req.Command == "":
		return guest.Errorf(guest.CodeInvalid, "the command is empty")
	case len(req.Command) > guest.MaxInline:
		return tooLarge("the command", len(req.Command))
	case len(req.Stdin) > guest.MaxInline:
		return tooLarge("stdin", len(req.Stdin))
	}
	for _, e := range []*guest.Error{
		within("timeout_ms", req.TimeoutMS, guest.MaxTimeoutMS),
		within("wait_ms", req.WaitMS, guest.MaxWaitMS),
		within("max_output", int64(req.MaxOutput), guest.MaxInline),
	} {
		if e != nil {
			return e
		}
	}
	return nil
}

func within(name string, value, most int64) *guest.Error {
	if value < 0 || value > most {
		return guest.Errorf(guest.CodeInvalid, "%s is %d: it must be from 0 to %d", name, value, most)
	}
	return nil
}

func tooLarge(what string, size int) *guest.Error {
	return guest.Errorf(guest.CodeTooLarge,
		"%s has %d bytes, at most %d go in one call: write a file in parts (append) and use that", what, size, guest.MaxInline)
}
