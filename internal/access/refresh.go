package access

import (
	"log/slog"
	"sync"
	"time"
)

// checkEvery is how long a changed source may go unnoticed: short enough for a
// revocation, long enough to cost nothing under load.
const checkEvery = time.Second

// Options are common to the Authenticators that read a file.
type Options struct {
	// Logger hears of a source that went bad; default slog.Default.
	Logger *slog.Logger
	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// source keeps the entries of a file up to date. load is called at most once
// per checkEvery, under the lock; it gives changed as false when it need not
// have looked. When it fails, the entries stay.
type source struct {
	opts Options
	load func() (entries []entry, changed bool, err error)

	mu      sync.Mutex
	checked time.Time
	entries []entry
	failure string // last error logged, so that each is logged once
}

// open loads for the first time, when an error still can be shown to someone.
func (s *source) open() error {
	entries, _, err := s.load()
	if err != nil {
		return err
	}
	s.entries, s.checked = entries, s.opts.Now()
	return nil
}

// Owner finds the token's owner.
func (s *source) Owner(token string) (string, bool) {
	return find(s.current(), token)
}

func (s *source) current() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	if since := now.Sub(s.checked); since >= 0 && since < checkEvery {
		return s.entries
	}
	s.checked = now
	entries, changed, err := s.load()
	switch {
	case err != nil:
		if s.failure != err.Error() {
			s.failure = err.Error()
			s.opts.Logger.Error("tokens were not read again, the last good ones stay in force", "error", err)
		}
	case changed:
		s.failure = ""
		s.entries = entries
		s.opts.Logger.Info("tokens were read again", "tokens", len(entries))
	}
	return s.entries
}
