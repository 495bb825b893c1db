package defaultsession_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/defaultsession"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// engine stands for everything behind a session.Caller: what outlives a server.
type engine struct {
	mu     sync.Mutex
	starts []string // call IDs
	names  []string
	live   map[string]bool // by session ID; false has ended
	fail   error           // of the next start
	asked  int
}

func (e *engine) Invoke(_ context.Context, operation string, call session.Call, in, out any) (session.Meta, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if operation != session.StartSession.Name {
		if operation == session.EndSession.Name {
			e.live[call.SessionID] = false
		} else if !e.live[call.SessionID] {
			return session.Meta{}, session.Errorf(session.FailedPrecondition, "the session has ended")
		}
		return session.Meta{SessionID: call.SessionID}, nil
	}
	if err := e.fail; err != nil {
		e.fail = nil
		return session.Meta{}, err
	}
	id := sessionID(call.Owner, call.CallID)
	if alive, known := e.live[id]; known && !alive {
		return session.Meta{}, session.Errorf(session.FailedPrecondition, "the session has ended")
	}
	e.starts = append(e.starts, call.CallID)
	e.names = append(e.names, in.(*session.StartSessionIn).Name)
	e.live[id] = true
	out.(*session.StartSessionOut).SessionID = id
	return session.Meta{SessionID: id}, nil
}

func (e *engine) ended(_ context.Context, id string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	return !e.live[id], nil
}

func sessionID(owner, callID string) string { return "s_" + owner + "_" + callID }

// open makes the store of a server that begins.
func open(t *testing.T, e *engine, dir string) *defaultsession.Store {
	t.Helper()
	s, err := defaultsession.New(defaultsession.Options{Dir: dir, Owner: "me", Caller: e, SessionID: sessionID, Ended: e.ended})
	require.NoError(t, err)
	return s
}

func newEngine() *engine { return &engine{live: map[string]bool{}} }

const (
	one   = "11111111-0000-4000-8000-000000000000"
	two   = "22222222-0000-4000-8000-000000000000"
	three = "33333333-0000-4000-8000-000000000000"
)

var (
	start  = tools.DefaultUse{Starts: true}
	look   = tools.DefaultUse{}
	resent = tools.DefaultUse{Starts: true, Resent: true}
)

func connect(t *testing.T, s *defaultsession.Store, id, name string) context.Context {
	t.Helper()
	c, err := s.Connection(id, name)
	require.NoError(t, err)
	t.Cleanup(func() { s.Release(c) })
	return defaultsession.WithConnection(t.Context(), c)
}

func use(t *testing.T, s *defaultsession.Store, ctx context.Context, u tools.DefaultUse) tools.DefaultSession { //nolint:revive // t first, as everywhere
	t.Helper()
	d, err := s.Session(ctx, u)
	require.NoError(t, err)
	return d
}

func TestUnnamed(t *testing.T) {
	e, dir := newEngine(), t.TempDir()
	s := open(t, e, dir)
	a, b := connect(t, s, one, ""), connect(t, s, two, "")
	_, err := s.Session(a, look)
	require.Equal(t, session.FailedPrecondition, session.CodeOf(err), "nothing to look at, and none is started")
	require.Empty(t, e.starts)

	first := use(t, s, a, start)
	require.Equal(t, "s_me_stdio-"+one, first.SessionID)
	require.Contains(t, first.Note, "session_id "+first.SessionID)
	require.Equal(t, tools.DefaultSession{SessionID: first.SessionID}, use(t, s, a, start), "named once")
	require.NotEqual(t, first.SessionID, use(t, s, b, start).SessionID)
	require.Equal(t, []string{"", ""}, e.names)

	// The connection comes back, to this server and to the next.
	require.Equal(t, first, use(t, s, connect(t, s, one, ""), start))
	require.Equal(t, first, use(t, open(t, e, dir), connect(t, open(t, e, dir), one, ""), look))
	require.Len(t, e.starts, 2)
}

func TestNamed(t *testing.T) {
	e, dir := newEngine(), t.TempDir()
	s := open(t, e, dir)
	var wg sync.WaitGroup
	got := make([]string, 8)
	for i := range got { // connections at once
		ctx := connect(t, s, one, "work")
		wg.Go(func() {
			if d, err := s.Session(ctx, start); err == nil {
				got[i] = d.SessionID
			}
		})
	}
	wg.Wait()
	for _, id := range got {
		require.Equal(t, got[0], id)
	}
	require.NotEmpty(t, got[0])
	require.Equal(t, []string{"work"}, e.names, "started once, and labelled")
	later := open(t, e, dir)
	d := use(t, later, connect(t, later, two, "work"), start)
	require.Equal(t, got[0], d.SessionID)
	require.Contains(t, d.Note, "named work")
	require.NotEqual(t, got[0], use(t, later, connect(t, later, two, "other"), start).SessionID)

	for _, name := range []string{"a/b", "..x/", "", "ä", "a b", string(make([]byte, 65))} {
		require.Error(t, defaultsession.CheckName(name), "%q", name)
	}
	_, err := s.Connection(one, "../x")
	require.Error(t, err)
	_, err = s.Connection("../../etc/passwd-0000", "")
	require.Error(t, err)
}

// A session that has ended is followed by a fresh one; not under a call that may
// have begun in it.
func TestEnded(t *testing.T) {
	e, dir := newEngine(), t.TempDir()
	s := open(t, e, dir)
	ctx := connect(t, s, one, "work")
	first := use(t, s, ctx, start).SessionID
	calls := s.Watch(e)

	_, _, err := session.Do(t.Context(), calls, session.EndSession, session.Call{SessionID: first}, session.EndSessionIn{})
	require.NoError(t, err)
	require.Equal(t, first, use(t, s, ctx, look).SessionID, "end_session again")
	require.Equal(t, first, use(t, s, ctx, resent).SessionID)
	second := use(t, s, ctx, start)
	require.NotEqual(t, first, second.SessionID)
	require.NotEmpty(t, second.Note, "the new one is named")
	require.Zero(t, e.asked, "the end was seen here")

	// Ended elsewhere: a call runs into it, the next has a new one.
	e.live[second.SessionID] = false
	require.Equal(t, second.SessionID, use(t, s, ctx, start).SessionID)
	_, _, err = session.Do(t.Context(), calls, session.GetSession, session.Call{SessionID: second.SessionID}, session.GetSessionIn{})
	require.Equal(t, session.FailedPrecondition, session.CodeOf(err))
	third := use(t, s, ctx, start).SessionID
	require.NotEqual(t, second.SessionID, third)

	// Ended while no server ran.
	e.live[third] = false
	later := open(t, e, dir)
	ctx = connect(t, later, two, "work")
	require.Equal(t, third, use(t, later, ctx, resent).SessionID)
	require.NotEqual(t, third, use(t, later, ctx, start).SessionID)
	require.Len(t, e.starts, 4)
}

// A server that is killed in a start has written down what it started.
func TestKilledInAStart(t *testing.T) {
	e, dir := newEngine(), t.TempDir()
	s := open(t, e, dir)
	e.fail = context.Canceled
	ctx, cancel := context.WithCancel(connect(t, s, one, "work"))
	cancel()
	_, err := s.Session(ctx, start)
	require.ErrorIs(t, err, context.Canceled)

	e.fail = session.Errorf(session.DeadlineExceeded, "the image takes a while")
	_, err = s.Session(connect(t, s, one, "work"), start)
	require.Equal(t, session.Unavailable, session.CodeOf(err))
	require.ErrorContains(t, err, "is still starting; nothing was done yet, call again")
	pending := regexp.MustCompile(`s_me_[a-z0-9_]+`).FindString(err.Error())
	record, err := os.ReadFile(filepath.Join(dir, "names", "work.json"))
	require.NoError(t, err)
	require.Contains(t, string(record), pending)
	e.live[pending] = true
	later := open(t, e, dir)
	require.Equal(t, pending, use(t, later, connect(t, later, two, "work"), start).SessionID)
	require.Len(t, e.starts, 1, "no second one")
}

// A start that failed for good is forgotten, with its call ID.
func TestFailedStart(t *testing.T) {
	e, dir := newEngine(), t.TempDir()
	s := open(t, e, dir)
	ctx := connect(t, s, one, "work")
	e.fail = session.Errorf(session.NotFound, "no image")
	_, err := s.Session(ctx, start)
	require.EqualError(t, err, "NotFound: no image")
	require.NoFileExists(t, filepath.Join(dir, "names", "work.json"))
	require.NotEmpty(t, use(t, s, ctx, start).SessionID)
}

func TestStart(t *testing.T) {
	e := newEngine()
	s := open(t, e, t.TempDir())
	c, err := s.Connection(one, "")
	require.NoError(t, err)
	defer s.Release(c)
	id, fresh, err := s.Start(t.Context(), c)
	require.NoError(t, err)
	require.True(t, fresh)
	again, fresh, err := s.Start(t.Context(), c)
	require.NoError(t, err)
	require.True(t, fresh, "as long as no call has used it")
	require.Equal(t, id, again)
	require.Equal(t, id, use(t, s, defaultsession.WithConnection(t.Context(), c), start).SessionID)
	_, fresh, err = s.Start(t.Context(), c)
	require.NoError(t, err)
	require.False(t, fresh)
}

// A session whose filling was cut off is filled by the next connection; a server
// tells no two that are there.
func TestWhoFills(t *testing.T) {
	e, dir := newEngine(), t.TempDir()
	s := open(t, e, dir)
	fresh := func(s *defaultsession.Store, c *defaultsession.Connection) bool {
		_, fresh, err := s.Start(t.Context(), c)
		require.NoError(t, err)
		return fresh
	}
	first, err := s.Connection(one, "work")
	require.NoError(t, err)
	second, err := s.Connection(two, "work")
	require.NoError(t, err)
	require.True(t, fresh(s, first))
	require.False(t, fresh(s, second), "the first is at it")
	s.Release(first) // killed
	require.True(t, fresh(s, second))

	s = open(t, e, dir) // so is the server
	third, err := s.Connection(three, "work")
	require.NoError(t, err)
	require.True(t, fresh(s, third))
	require.NoError(t, s.Filled(t.Context(), third))
	s.Release(third)
	s = open(t, e, dir)
	last, err := s.Connection(one, "work")
	require.NoError(t, err)
	require.False(t, fresh(s, last), "a session that was used keeps what it has")
}

func TestRecords(t *testing.T) {
	e, dir := newEngine(), t.TempDir()
	open(t, e, dir)
	old, name := filepath.Join(dir, "connections", two+".json"), filepath.Join(dir, "names", "n.json")
	for _, path := range []string{old, name} {
		require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-40*24*time.Hour)))
	}
	s := open(t, e, dir)
	require.NoFileExists(t, old)
	_, err := s.Session(connect(t, s, one, "n"), start)
	require.ErrorContains(t, err, name)
	require.ErrorContains(t, err, "remove the file")
	_, err = s.Session(t.Context(), start)
	require.ErrorContains(t, err, "no connection")
}
