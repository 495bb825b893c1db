// Package journal is the guest's memory of calls: which call IDs have begun,
// which were refused, and how they ended.
//
// A begin is on its way to the kernel before the effect it announces starts,
// so a call ID takes effect at most once over every kill of the guest. Records
// are appended by one write(2) each and not synced: they survive the death of
// any process. Power loss or a crash of the host's kernel may cost the newest
// records; what is lost then is found torn at the next start and cut off. A
// journal damaged in its middle is refused (ErrDamaged), never guessed at.
//
// Call IDs are kept as long as the journal lives; outcomes by a rule of number
// and size (Options). Only package supervisor uses it.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Defaults of Options.
const (
	DefaultKeep      = 4096
	DefaultKeepBytes = 16 << 20
)

// The errors of a journal.
var (
	// ErrFull: no space is left; nothing was recorded.
	ErrFull = errors.New("no space is left for the journal")
	// ErrMismatch: the call ID was used with another operation or arguments.
	ErrMismatch = errors.New("this call ID was used with another operation or other arguments")
	// ErrLocked: another guest has the journal open.
	ErrLocked = errors.New("another guest has the journal open")
	// ErrDamaged: the file is broken in its middle.
	ErrDamaged = errors.New("the journal is damaged")
	// ErrForeign: it belongs to another session, or to a later incarnation.
	ErrForeign = errors.New("the journal belongs to another sandbox")
)

// State is where a call stands.
type State int

// The states of a call.
const (
	Begun State = iota + 1
	Ended
	Refused
	// Lost: begun in an earlier life of the guest, and never ended.
	Lost
)

// Key names a call: the ID, and what it was asked to do.
type Key struct{ ID, Op, Digest string }

// Entry is what the journal knows of one call.
type Entry struct {
	Key
	State State
	// Seq numbers the calls that have begun, from 1.
	Seq         uint64
	Incarnation int
	UnixMS      int64
	// Detail is what Begin was given.
	Detail json.RawMessage
	// Outcome is what End was given; nil when Dropped.
	Outcome json.RawMessage
	// Dropped says that the outcome is no longer kept.
	Dropped bool
	// Done is closed once the call is no longer Begun.
	Done chan struct{}
}

// Options tune a journal. Zero values are the defaults.
type Options struct {
	Session     string
	Incarnation int
	Boot        string
	// Keep and KeepBytes bound the outcomes kept: at most so many, and so many
	// bytes of them; the oldest go first. Default 4096 and 16 MiB.
	Keep      int
	KeepBytes int
	// Permanent names an operation whose outcomes and details are kept always.
	Permanent string
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Journal is an open journal. Its methods may be called concurrently.
type Journal struct {
	opts Options

	mu       sync.Mutex
	file     *os.File
	size     int64
	reserved int64
	broken   error
	entries  map[string]*Entry
	order    []*Entry // in order of Seq
	seq      uint64
	kept     []*Entry // ended, with an outcome that may be dropped; oldest first
	bytes    int
}

// Begin records that a call is about to take effect, unless its ID is known.
// Only when fresh is true may the caller go on, and it must call End. The entry
// is a copy.
func (j *Journal) Begin(key Key, detail any) (e Entry, fresh bool, err error) {
	var raw json.RawMessage
	if detail != nil {
		if raw, err = json.Marshal(detail); err != nil {
			return Entry{}, false, fmt.Errorf("encode detail: %w", err)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if known := j.entries[key.ID]; known != nil && !forgotten(known) {
		if known.State != Refused && known.Key != key {
			return *known, false, ErrMismatch
		}
		return *known, false, nil
	}
	r := record{
		Kind: kindBegin, ID: key.ID, Op: key.Op, Digest: key.Digest, Seq: j.seq + 1,
		Incarnation: j.opts.Incarnation, UnixMS: j.opts.Now().UnixMilli(), Detail: raw,
	}
	if err := j.append(r); err != nil {
		return Entry{}, false, err
	}
	j.apply(r)
	return *j.entries[key.ID], true, nil
}

// End records a call's outcome. When that is impossible (ErrFull), the outcome
// still holds for the rest of this life of the guest.
func (j *Journal) End(id string, outcome any) error {
	raw, err := json.Marshal(outcome)
	if err != nil {
		return fmt.Errorf("encode outcome: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.entries[id]; e == nil || e.State != Begun {
		return fmt.Errorf("end of call %q, which is not running", id)
	}
	r := record{Kind: kindEnd, ID: id, UnixMS: j.opts.Now().UnixMilli(), Detail: raw}
	err = j.append(r)
	j.apply(r)
	return err
}

// Refuse records that an ID must never take effect. It returns false when a
// call of that ID has begun before.
func (j *Journal) Refuse(id string) (bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.entries[id]; e != nil {
		return e.State == Refused, nil
	}
	r := record{Kind: kindRefuse, ID: id, UnixMS: j.opts.Now().UnixMilli()}
	if err := j.append(r); err != nil {
		return false, err
	}
	j.apply(r)
	return true, nil
}

// Lookup finds a call.
func (j *Journal) Lookup(id string) (Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.entries[id]; e != nil && !forgotten(e) {
		return *e, true
	}
	return Entry{}, false
}

// Entries lists all calls that have begun, oldest first.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]Entry, len(j.order))
	for i, e := range j.order {
		all[i] = *e
	}
	return all
}

// Size is the length of the file, in bytes.
func (j *Journal) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// Close closes the file and frees its lock. Calls that have not ended will be
// Lost when it is opened again.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken == nil {
		j.broken = os.ErrClosed
	}
	return j.file.Close()
}

// append writes one record. After a partial write the file is cut back, so that
// a later record never follows a torn one.
func (j *Journal) append(r record) error {
	if j.broken != nil {
		return j.broken
	}
	line, err := encode(r)
	if err != nil {
		return err
	}
	if err := j.reserve(int64(len(line)), r.Kind); err != nil {
		return err
	}
	n, err := j.file.WriteAt(line, j.size)
	if err == nil {
		j.size += int64(n)
		return nil
	}
	if cut := j.file.Truncate(j.size); cut != nil {
		j.broken = fmt.Errorf("cut back a torn record: %w", cut)
	}
	j.reserved = 0
	return full(err)
}

// slack is the space reserved ahead: the end of what has begun must fit even
// when the disk is full by then.
const slack = 1 << 20

func (j *Journal) reserve(n int64, kind string) error {
	if j.size+n+slack/4 <= j.reserved {
		return nil
	}
	err := unix.Fallocate(int(j.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, j.size, n+slack)
	switch {
	case err == nil:
		j.reserved = j.size + n + slack
	case (kind == kindBegin || kind == kindRefuse) && errors.Is(err, unix.ENOSPC):
		return full(err)
	}
	return nil // no support for it on this file system: the write will tell
}

func full(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return ErrFull
	}
	return fmt.Errorf("write journal: %w", err)
}
