package defaultsession

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

const (
	// startWithin is how long a call waits for the start of its session. Many clients
	// wait 60 s; only a slow start and a command that waits long, both, exceed that.
	startWithin = 25 * time.Second
	// trusted is how long a session that was alive is taken to be.
	trusted = 10 * time.Second
)

// Options are what a Store needs; all but Logger are required.
type Options struct {
	// Dir is made (0700) if it is missing.
	Dir string
	// Owner of the sessions.
	Owner string
	// Caller starts them.
	Caller session.Caller
	// SessionID is the ID of the session that a call ID starts.
	SessionID func(owner, callID string) string
	// Ended tells whether a session has ended.
	Ended  func(ctx context.Context, sessionID string) (bool, error)
	Logger *slog.Logger
}

// Store keeps the default sessions of an installation. Safe for concurrent use.
type Store struct {
	opts Options

	mu      sync.Mutex
	entries map[string]*entry // by path
	gone    map[string]bool   // by session ID: ended
	doubted map[string]bool   // by session ID: a call found it in the wrong state
}

// entry is a name or a connection.
type entry struct {
	path  string
	label string // of its sessions; "" for a connection's
	first string // the call ID of its first session; "" is any

	// Under the store's mutex:
	users  map[string]int // connections, by ID
	filler string         // the ID of the connection that is to fill the session

	busy  chan struct{} // holds an element while one uses what is below
	known bool          // rec is what the file says
	rec   record
	alive time.Time // when the session was last seen alive
}

// New makes a Store.
func New(opts Options) (*Store, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	for _, sub := range []string{namesDir, connectionsDir} {
		if err := os.MkdirAll(filepath.Join(opts.Dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("default sessions: %w", err)
		}
	}
	sweep(filepath.Join(opts.Dir, connectionsDir))
	return &Store{opts: opts, entries: map[string]*entry{}, gone: map[string]bool{}, doubted: map[string]bool{}}, nil
}

var (
	namePattern       = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	connectionPattern = regexp.MustCompile(`^[A-Za-z0-9-]{16,64}$`)
)

// CheckName refuses what cannot be the name of a session.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("session name %.80q: a name is 1 to 64 characters of A-Z a-z 0-9 . _ -", name)
	}
	return nil
}

// Connection is a client that may leave session_id out.
type Connection struct {
	entry *entry
	id    string

	mu    sync.Mutex
	named string // the session that a result has named
}

// Check refuses what Connection would.
func Check(id, name string) error {
	if !connectionPattern.MatchString(id) {
		return fmt.Errorf("connection ID %.80q: want a UUID", id)
	}
	if name != "" {
		return CheckName(name)
	}
	return nil
}

// Connection gives the connection with this ID, which is a UUID. With a name its
// session is that of the name. The caller gives it back with Release.
func (s *Store) Connection(id, name string) (*Connection, error) {
	if err := Check(id, name); err != nil {
		return nil, err
	}
	e := &entry{path: filepath.Join(s.opts.Dir, connectionsDir, id+".json"), first: "stdio-" + id}
	if name != "" {
		e = &entry{path: filepath.Join(s.opts.Dir, namesDir, name+".json"), label: name}
	}
	e.busy = make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.entries[e.path]; have != nil {
		e = have
	}
	s.entries[e.path] = e
	if e.users == nil {
		e.users = map[string]int{}
	}
	e.users[id]++
	return &Connection{entry: e, id: id}, nil
}

// Release forgets a connection that has ended; its record stays.
func (s *Store) Release(c *Connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := c.entry
	if e.users[c.id]--; e.users[c.id] == 0 {
		delete(e.users, c.id)
		if e.filler == c.id {
			e.filler = ""
		}
	}
	if len(e.users) == 0 {
		delete(s.entries, e.path)
	}
}

type connectionKey struct{}

// WithConnection says whose requests those of ctx are.
func WithConnection(ctx context.Context, c *Connection) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// Session gives the session of a call on ctx's connection that names none. It is
// a tools.Options.DefaultSession; its errors are *session.Error but for faults of
// ours.
func (s *Store) Session(ctx context.Context, use tools.DefaultUse) (tools.DefaultSession, error) {
	c, _ := ctx.Value(connectionKey{}).(*Connection)
	if c == nil {
		return tools.DefaultSession{}, errors.New("default session: no connection in the request's context")
	}
	id, err := s.resolve(ctx, c.entry, use, s.used)
	if err != nil {
		return tools.DefaultSession{}, err
	}
	return tools.DefaultSession{SessionID: id, Note: c.note(id)}, nil
}

// Start starts the connection's session or finds it. fresh is that it is this
// connection's to fill: no call has used it, and this store has told no other
// connection the same that is still there.
func (s *Store) Start(ctx context.Context, c *Connection) (sessionID string, fresh bool, err error) {
	sessionID, err = s.resolve(ctx, c.entry, tools.DefaultUse{Starts: true}, func(e *entry) {
		if !e.rec.Unused {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.filler == "" {
			e.filler = c.id
		}
		fresh = e.filler == c.id
	})
	return sessionID, fresh, err
}

// Filled notes that the connection has filled its session.
func (s *Store) Filled(ctx context.Context, c *Connection) error {
	_, err := s.resolve(ctx, c.entry, tools.DefaultUse{}, s.used)
	return err
}

// used notes that a call uses an entry's session, which is then nobody's to fill.
func (s *Store) used(e *entry) {
	if !e.rec.Unused {
		return
	}
	e.rec.Unused = false
	if err := writeRecord(e.path, e.rec); err != nil {
		s.opts.Logger.Warn("record the use of a default session", session.KeySession, e.rec.SessionID, "error", err)
	}
}

// note names a session to the connection, once.
func (c *Connection) note(sessionID string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.named == sessionID {
		return ""
	}
	c.named = sessionID
	what := "this connection's own"
	if c.entry.label != "" {
		what = "the one named " + c.entry.label
	}
	return fmt.Sprintf("[session_id %s: %s, used where no session_id is given]", sessionID, what)
}

// resolve gives an entry's session, starting one if need be. found is called
// before the entry is free for the next.
func (s *Store) resolve(ctx context.Context, e *entry, use tools.DefaultUse, found func(*entry)) (sessionID string, err error) {
	select {
	case e.busy <- struct{}{}:
		defer func() { <-e.busy }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if sessionID, err = s.find(ctx, e, use); err == nil {
		found(e)
	}
	return sessionID, err
}

func (s *Store) find(ctx context.Context, e *entry, use tools.DefaultUse) (sessionID string, err error) {
	if !e.known {
		if e.rec, err = readRecord(e.path); err != nil {
			return "", err
		}
		e.known = true
	}
	if e.rec.Started {
		if !s.hasEnded(ctx, e) || use.Resent || !use.Starts {
			return e.rec.SessionID, nil
		}
		e.first, e.rec = "", record{}
	}
	if !use.Starts {
		return "", session.Errorf(session.FailedPrecondition,
			"this connection has no session yet; run_command or a file tool starts it, or give the session_id of another")
	}
	return s.start(ctx, e, use)
}

// hasEnded tells whether an entry's session has ended. When that cannot be told
// the call itself will.
func (s *Store) hasEnded(ctx context.Context, e *entry) bool {
	id := e.rec.SessionID
	s.mu.Lock()
	gone, doubted := s.gone[id], s.doubted[id]
	delete(s.doubted, id)
	s.mu.Unlock()
	if gone {
		return true
	}
	if !doubted && time.Since(e.alive) < trusted {
		return false
	}
	ended, err := s.opts.Ended(ctx, id)
	if err != nil {
		s.opts.Logger.WarnContext(ctx, "look whether a default session has ended", session.KeySession, id, "error", err)
		return false
	}
	if !ended {
		e.alive = time.Now()
	}
	return ended
}

// start starts a session under the recorded call ID, or a new one that is
// recorded first. A recorded start of before may have run and ended since.
func (s *Store) start(ctx context.Context, e *entry, use tools.DefaultUse) (sessionID string, err error) {
	recorded := e.rec.CallID != ""
	if !recorded {
		callID := e.first
		if callID == "" {
			callID = session.NewCallID()
		}
		e.rec = record{CallID: callID, SessionID: s.opts.SessionID(s.opts.Owner, callID), At: time.Now().UTC(), Unused: true}
		if err := writeRecord(e.path, e.rec); err != nil {
			e.rec = record{}
			return "", err
		}
	}
	err = s.startSession(ctx, e)
	switch code := session.CodeOf(err); {
	case err == nil:
	case recorded && code == session.FailedPrecondition && use.Resent:
		return e.rec.SessionID, nil // where the call was first
	case ctx.Err() != nil:
		return "", ctx.Err() // the next call goes on
	case code == session.DeadlineExceeded:
		return "", session.Errorf(session.Unavailable,
			"session %s, this connection's own, is still starting; nothing was done yet, call again", e.rec.SessionID)
	default:
		e.first, e.rec = "", record{}
		if recorded && code == session.FailedPrecondition {
			return s.start(ctx, e, use)
		}
		if rerr := os.Remove(e.path); rerr != nil {
			s.opts.Logger.WarnContext(ctx, "forget a session that could not be started", "error", rerr)
		}
		return "", err
	}
	e.rec.Started, e.alive = true, time.Now()
	if err := writeRecord(e.path, e.rec); err != nil {
		// What is written still leads to this session.
		s.opts.Logger.WarnContext(ctx, "record a default session", session.KeySession, e.rec.SessionID, "error", err)
	}
	return e.rec.SessionID, nil
}

func (s *Store) startSession(ctx context.Context, e *entry) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	_, _, err := session.Do(ctx, s.opts.Caller, session.StartSession,
		session.Call{Owner: s.opts.Owner, CallID: e.rec.CallID}, session.StartSessionIn{Name: e.label})
	return err
}

// Watch gives a Caller that tells the store of sessions that end, or that a call
// found in another state than it needs.
func (s *Store) Watch(next session.Caller) session.Caller { return watch{next, s} }

type watch struct {
	session.Caller
	store *Store
}

func (w watch) Invoke(ctx context.Context, operation string, call session.Call, in, out any) (session.Meta, error) {
	meta, err := w.Caller.Invoke(ctx, operation, call, in, out)
	switch code := session.CodeOf(err); {
	case operation == session.EndSession.Name && err == nil:
		w.store.mark(w.store.gone, call.SessionID)
	case code == session.FailedPrecondition, code == session.NotFound:
		w.store.mark(w.store.doubted, call.SessionID)
	}
	return meta, err
}

// mark remembers something of a session that is some entry's.
func (s *Store) mark(where map[string]bool, sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(where) > 10_000 {
		clear(where) // Ended is asked instead
	}
	where[sessionID] = true
}
