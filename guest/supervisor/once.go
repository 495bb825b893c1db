package supervisor

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
)

// outcome is what the journal keeps of a call that has ended.
type outcome struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *guest.Error    `json:"error,omitempty"`
}

// once carries out effect at most once for a call ID and returns its outcome,
// now and ever after. A second request with the ID waits for the first. The
// effect goes on when ctx ends; it gets a context that lives on.
func once[T any](ctx context.Context, s *Supervisor, key journal.Key, effect func(context.Context) (T, *guest.Error)) (T, error) {
	var zero T
	if !guest.ValidCallID(key.ID) {
		return zero, invalidID(key.ID)
	}
	if gerr := s.enter(); gerr != nil {
		return zero, gerr
	}
	defer s.work.Done()
	entry, fresh, err := s.journal.Begin(key, nil)
	if err != nil {
		return zero, beginError(err)
	}
	if !fresh {
		return replay[T](ctx, s, entry)
	}
	result, gerr := guarded(s, key, func() (T, *guest.Error) { return effect(context.WithoutCancel(ctx)) })
	out := outcome{Error: gerr}
	if gerr == nil {
		if out.Result, err = json.Marshal(result); err != nil {
			out.Error = guest.Errorf(guest.CodeInternal, "encode outcome: %v", err)
		}
	}
	if err := s.journal.End(key.ID, out); err != nil {
		s.opts.Log.Error("outcome not recorded", "call_id", key.ID, "op", key.Op, "error", err)
	}
	if out.Error != nil {
		return zero, out.Error
	}
	return result, nil
}

// guarded turns a panic into an outcome: a call must not stay begun for ever.
func guarded[T any](s *Supervisor, key journal.Key, effect func() (T, *guest.Error)) (result T, gerr *guest.Error) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Log.Error("panic in an operation", "op", key.Op, "call_id", key.ID, "panic", p)
			gerr = guest.Errorf(guest.CodeLost, "the guest had a fault during this call: what it did is not known")
		}
	}()
	return effect()
}

// replay answers from the journal.
func replay[T any](ctx context.Context, s *Supervisor, e journal.Entry) (T, error) {
	var zero T
	select {
	case <-e.Done:
	case <-ctx.Done():
		return zero, ctx.Err()
	}
	e, _ = s.journal.Lookup(e.ID)
	if gerr := standing(e); gerr != nil {
		return zero, gerr
	}
	var out outcome
	if err := json.Unmarshal(e.Outcome, &out); err != nil {
		return zero, guest.Errorf(guest.CodeInternal, "decode outcome: %v", err)
	}
	if out.Error != nil {
		return zero, out.Error
	}
	var result T
	if err := json.Unmarshal(out.Result, &result); err != nil {
		return zero, guest.Errorf(guest.CodeInternal, "decode outcome: %v", err)
	}
	return result, nil
}

// standing is the error that an entry's state means for a repeat, if any.
func standing(e journal.Entry) *guest.Error {
	switch {
	case e.State == journal.Refused:
		return guest.Errorf(guest.CodeRefused, "call %s was refused and is never carried out: use a new call ID", e.ID)
	case e.State == journal.Lost:
		return guest.Errorf(guest.CodeLost,
			"call %s had begun when the sandbox died: whether it took effect is not known; look before you repeat it", e.ID)
	case e.Dropped:
		return guest.Errorf(guest.CodePrecondition,
			"call %s has taken effect, but its outcome is no longer kept (the newest %d are, up to %d MiB)",
			e.ID, journal.DefaultKeep, journal.DefaultKeepBytes>>20)
	}
	return nil
}

func beginError(err error) *guest.Error {
	switch {
	case errors.Is(err, journal.ErrFull):
		return guest.Errorf(guest.CodeExhausted, "the disk of the sandbox's host is full: nothing was done")
	case errors.Is(err, journal.ErrMismatch):
		return guest.Errorf(guest.CodeInvalid, "%v: use a new call ID", err)
	}
	return guest.Errorf(guest.CodeInternal, "%v", err)
}

func invalidID(id string) *guest.Error {
	return guest.Errorf(guest.CodeInvalid, "call ID %.40q is not 1 to %d of [A-Za-z0-9_-]", id, guest.MaxCallID)
}
