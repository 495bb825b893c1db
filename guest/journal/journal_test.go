package journal_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
)

func open(t *testing.T, path string, change ...func(*journal.Options)) *journal.Journal {
	t.Helper()
	opts := journal.Options{Session: "s", Incarnation: 1, Permanent: "run"}
	for _, c := range change {
		c(&opts)
	}
	j, err := journal.Open(path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func reopen(t *testing.T, j *journal.Journal, path string, change ...func(*journal.Options)) *journal.Journal {
	t.Helper()
	require.NoError(t, j.Close())
	return open(t, path, change...)
}

func begin(t *testing.T, j *journal.Journal, id, op string) {
	t.Helper()
	_, fresh, err := j.Begin(journal.Key{ID: id, Op: op, Digest: "d"}, "detail")
	require.NoError(t, err)
	require.True(t, fresh)
}

func TestStatesOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	begin(t, j, "ended", "edit_file")
	require.NoError(t, j.End("ended", "outcome"))
	begin(t, j, "running", "run")
	refused, err := j.Refuse("refused")
	require.NoError(t, err)
	require.True(t, refused)
	refused, err = j.Refuse("ended")
	require.NoError(t, err)
	require.False(t, refused, "it has begun")

	j = reopen(t, j, path)
	for id, state := range map[string]journal.State{
		"ended": journal.Ended, "running": journal.Lost, "refused": journal.Refused,
	} {
		e, ok := j.Lookup(id)
		require.True(t, ok)
		require.Equal(t, state, e.State, id)
		<-e.Done
	}
	e, fresh, err := j.Begin(journal.Key{ID: "ended", Op: "edit_file", Digest: "d"}, nil)
	require.NoError(t, err)
	require.False(t, fresh)
	require.JSONEq(t, `"outcome"`, string(e.Outcome))
	_, _, err = j.Begin(journal.Key{ID: "ended", Op: "edit_file", Digest: "other"}, nil)
	require.ErrorIs(t, err, journal.ErrMismatch)
	_, _, err = j.Begin(journal.Key{ID: "ended", Op: "write_file", Digest: "d"}, nil)
	require.ErrorIs(t, err, journal.ErrMismatch)
	_, fresh, err = j.Begin(journal.Key{ID: "refused", Op: "run"}, nil)
	require.NoError(t, err)
	require.False(t, fresh)
	require.Error(t, j.End("running", nil), "lost stays lost")
	begin(t, j, "new", "run")
	e, _ = j.Lookup("new")
	require.EqualValues(t, 3, e.Seq, "numbers go on")
}

// Wherever a crash cuts the file, what was recorded before it holds, and what
// was not is as if it had never been asked.
func TestCutAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	j := open(t, filepath.Join(dir, "whole"))
	begin(t, j, "a", "edit_file")
	afterBegin := j.Size()
	require.NoError(t, j.End("a", "out"))
	afterEnd := j.Size()
	_, err := j.Refuse("b")
	require.NoError(t, err)
	require.NoError(t, j.Close())
	whole, err := os.ReadFile(filepath.Join(dir, "whole"))
	require.NoError(t, err)

	for n := range len(whole) + 1 {
		path := filepath.Join(dir, strconv.Itoa(n))
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		j := open(t, path)
		e, known := j.Lookup("a")
		switch {
		case int64(n) >= afterEnd:
			require.Equal(t, journal.Ended, e.State)
		case int64(n) >= afterBegin:
			require.Equal(t, journal.Lost, e.State)
		default:
			require.False(t, known)
		}
		_, known = j.Lookup("b")
		require.Equal(t, n == len(whole), known)
		begin(t, j, "c", "run")
		j = reopen(t, j, path)
		_, known = j.Lookup("c")
		require.True(t, known, "a record after a torn one at %d", n)
		require.NoError(t, j.Close())
	}
}

func TestDamageIsNotGuessedAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	begin(t, j, "a", "run")
	at := j.Size() - 10
	begin(t, j, "b", "run")
	require.NoError(t, j.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[at] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
	_, err = journal.Open(path, journal.Options{Session: "s", Incarnation: 1})
	require.ErrorIs(t, err, journal.ErrDamaged)
}

func TestOneGuestOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path, func(o *journal.Options) { o.Incarnation = 2 })
	_, err := journal.Open(path, journal.Options{Session: "s", Incarnation: 3})
	require.ErrorIs(t, err, journal.ErrLocked)
	require.NoError(t, j.Close())
	_, err = journal.Open(path, journal.Options{Session: "s", Incarnation: 1})
	require.ErrorIs(t, err, journal.ErrForeign)
	_, err = journal.Open(path, journal.Options{Session: "other", Incarnation: 2})
	require.ErrorIs(t, err, journal.ErrForeign)
}

func TestOutcomesAreKeptByRule(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	few := func(o *journal.Options) { o.Keep, o.KeepBytes = 2, 100 }
	j := open(t, path, few)
	end := func(id, op, outcome string) {
		begin(t, j, id, op)
		require.NoError(t, j.End(id, outcome))
	}
	end("run", "run", "always kept")
	end("a", "edit_file", "1")
	end("b", "edit_file", "2")
	end("c", "edit_file", "3")
	check := func() {
		for id, dropped := range map[string]bool{"run": false, "a": true, "b": false, "c": false} {
			e, _ := j.Lookup(id)
			require.Equal(t, journal.Ended, e.State)
			require.Equal(t, dropped, e.Dropped, id)
		}
	}
	check()
	j = reopen(t, j, path, few)
	check()
	end("big", "edit_file", strings.Repeat("x", 200))
	e, _ := j.Lookup("c")
	require.True(t, e.Dropped, "too many bytes")
	e, _ = j.Lookup("big")
	require.False(t, e.Dropped, "the newest stays")
}

func TestCompaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	few := func(o *journal.Options) { o.Keep = 2 }
	j := open(t, path, few)
	_, err := j.Refuse("refused")
	require.NoError(t, err)
	begin(t, j, "lost", "run")
	for i := range 20 {
		id := fmt.Sprint("e", i)
		begin(t, j, id, "edit_file")
		require.NoError(t, j.End(id, strings.Repeat("x", 600<<10)))
	}
	before := j.Size()
	for range 2 {
		j = reopen(t, j, path, few)
		require.Less(t, j.Size(), before/4)
		for id, state := range map[string]journal.State{
			"refused": journal.Refused, "lost": journal.Lost, "e0": journal.Ended, "e19": journal.Ended,
		} {
			e, ok := j.Lookup(id)
			require.True(t, ok)
			require.Equal(t, state, e.State, id)
			require.Equal(t, id == "e0", e.Dropped, id)
		}
		require.Len(t, j.Entries(), 21)
	}
	_, err = journal.Open(path, journal.Options{Session: "s", Incarnation: 1})
	require.ErrorIs(t, err, journal.ErrLocked, "the lock went along")
}

func TestOneBeginsOfMany(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal"))
	var fresh atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, first, err := j.Begin(journal.Key{ID: "a", Op: "run"}, nil); err == nil && first {
				fresh.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, fresh.Load())
}

// FuzzOpen: no content makes Open panic, and what it accepts it accepts again.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed")
	j, err := journal.Open(path, journal.Options{Session: "s", Incarnation: 1})
	require.NoError(f, err)
	_, _, err = j.Begin(journal.Key{ID: "a", Op: "run"}, json.RawMessage(`{"x":1}`))
	require.NoError(f, err)
	require.NoError(f, j.End("a", nil))
	require.NoError(f, j.Close())
	seed, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(seed)
	f.Add(seed[:len(seed)-3])
	f.Add([]byte("00000002 00000000 {}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "journal")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		opts := journal.Options{Session: "s", Incarnation: 1}
		j, err := journal.Open(path, opts)
		if err != nil {
			return
		}
		entries := len(j.Entries())
		require.NoError(t, j.Close())
		j, err = journal.Open(path, opts)
		require.NoError(t, err)
		require.Len(t, j.Entries(), entries)
		require.NoError(t, j.Close())
	})
}
