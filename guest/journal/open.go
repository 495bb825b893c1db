package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// compactAbove is the size from which Open rewrites a journal that is mostly
// dropped outcomes.
const compactAbove = 8 << 20

// Open opens the journal at path, or makes one, and takes its lock. It cuts off
// a torn tail, marks calls that had begun and not ended Lost, and records the
// new life of the guest. It fails with ErrLocked, ErrDamaged or ErrForeign.
func Open(path string, opts Options) (*Journal, error) {
	opts.Keep = cmp.Or(opts.Keep, DefaultKeep)
	opts.KeepBytes = cmp.Or(opts.KeepBytes, DefaultKeepBytes)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	file, err := os.OpenFile(filepath.Clean(path), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{opts: opts, file: file, entries: map[string]*Entry{}}
	if err := j.load(path); err != nil {
		_ = j.file.Close()
		return nil, err
	}
	return j, nil
}

func (j *Journal) load(path string) error {
	if err := unix.Flock(int(j.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return ErrLocked
	}
	data, err := io.ReadAll(j.file)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	var foreign error
	live := 0
	sound, damaged := decodeAll(data, func(r record, size int) {
		if r.Kind == kindBoot && (r.Session != j.opts.Session || r.Incarnation > j.opts.Incarnation) {
			foreign = fmt.Errorf("%w: session %s, incarnation %d", ErrForeign, r.Session, r.Incarnation)
		}
		if r.Kind != kindEnd {
			live += size
		}
		j.apply(r)
	})
	if damaged {
		return fmt.Errorf("%w at byte %d of %d", ErrDamaged, sound, len(data))
	}
	if foreign != nil {
		return foreign
	}
	if err := j.file.Truncate(int64(sound)); err != nil {
		return fmt.Errorf("cut off the torn tail: %w", err)
	}
	j.size = int64(sound)
	j.markLost()
	if sound > compactAbove && live+j.bytes < sound/2 {
		if err := j.compact(path); err != nil {
			return err
		}
	}
	return j.append(record{
		Kind: kindBoot, Session: j.opts.Session, Incarnation: j.opts.Incarnation,
		Boot: j.opts.Boot, UnixMS: j.opts.Now().UnixMilli(),
	})
}

func (j *Journal) markLost() {
	for _, e := range j.order {
		if e.State == Begun {
			e.State = Lost
			close(e.Done)
		}
	}
}

// apply brings the index up to date with a record.
func (j *Journal) apply(r record) {
	switch r.Kind {
	case kindBegin:
		e := &Entry{
			Key: Key{ID: r.ID, Op: r.Op, Digest: r.Digest}, State: Begun, Seq: r.Seq,
			Incarnation: r.Incarnation, UnixMS: r.UnixMS, Done: make(chan struct{}),
		}
		if r.Op == j.opts.Permanent {
			e.Detail = r.Detail
		}
		j.entries[r.ID] = e
		j.order = append(j.order, e)
		j.seq = max(j.seq, r.Seq)
	case kindEnd:
		if e := j.entries[r.ID]; e != nil && e.State == Begun {
			e.State, e.Outcome, e.Dropped = Ended, r.Detail, r.Dropped
			close(e.Done)
			j.retain(e)
		}
	case kindRefuse:
		done := make(chan struct{})
		close(done)
		j.entries[r.ID] = &Entry{Key: Key{ID: r.ID}, State: Refused, UnixMS: r.UnixMS, Done: done}
	}
}

// retain drops the oldest outcomes beyond the bounds. The newest always stays.
func (j *Journal) retain(e *Entry) {
	if e.Op == j.opts.Permanent || e.Dropped {
		return
	}
	j.kept = append(j.kept, e)
	j.bytes += len(e.Outcome)
	for len(j.kept) > 1 && (len(j.kept) > j.opts.Keep || j.bytes > j.opts.KeepBytes) {
		old := j.kept[0]
		j.kept = j.kept[1:]
		j.bytes -= len(old.Outcome)
		old.Outcome, old.Dropped = nil, true
	}
}

// compact rewrites the file without dropped outcomes, beside it and then over
// it. The new file is synced before it takes the old one's place.
func (j *Journal) compact(path string) error {
	temp := path + ".new"
	file, err := os.OpenFile(filepath.Clean(temp), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("compact journal: %w", err)
	}
	size, err := j.rewrite(file)
	if err == nil {
		err = errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB), file.Sync())
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(temp)
		if errors.Is(err, unix.ENOSPC) {
			return nil // the old file stays, larger than it need be
		}
		return fmt.Errorf("compact journal: %w", err)
	}
	_ = j.file.Close()
	j.file, j.size, j.reserved = file, size, 0
	return nil
}

func (j *Journal) rewrite(w io.Writer) (int64, error) {
	size := int64(0)
	put := func(r record) error {
		line, err := encode(r)
		if err != nil {
			return err
		}
		size += int64(len(line))
		_, err = w.Write(line)
		return err
	}
	first := record{Kind: kindBoot, Session: j.opts.Session, Incarnation: j.opts.Incarnation}
	if err := put(first); err != nil {
		return size, err
	}
	for _, e := range j.entries {
		if e.State == Refused {
			if err := put(record{Kind: kindRefuse, ID: e.ID, UnixMS: e.UnixMS}); err != nil {
				return size, err
			}
		}
	}
	for _, e := range j.order {
		err := put(record{
			Kind: kindBegin, ID: e.ID, Op: e.Op, Digest: e.Digest, Seq: e.Seq,
			Incarnation: e.Incarnation, UnixMS: e.UnixMS, Detail: e.Detail,
		})
		if err == nil && e.State == Ended {
			err = put(record{Kind: kindEnd, ID: e.ID, Dropped: e.Dropped, Detail: e.Outcome})
		}
		if err != nil {
			return size, err
		}
	}
	return size, nil
}
