package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// holder is what the lock file says about the process that holds it.
type holder struct {
	PID     int    `json:"pid"`
	Purpose string `json:"purpose"`
}

// lock is an exclusive flock. The kernel drops it with the process, so a crash
// leaves nothing to clean up; the file stays, as removing it would let two
// processes lock two files of one name.
type lock struct {
	mu   sync.Mutex
	file *os.File // nil once closed
}

func takeLock(dir, purpose string) (*lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the path is ours
	if err != nil {
		return nil, fmt.Errorf("data dir: lock: %w", explain(err))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer func() { _ = f.Close() }()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &InUseError{Dir: dir, Holder: readHolder(f)}
		}
		return nil, fmt.Errorf("data dir %s: this file system has no locks, give another --data-dir: %w", dir, err)
	}
	l := &lock{file: f}
	if err := l.describe(purpose); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// InUseError says that another process holds a data dir's lock.
type InUseError struct {
	Dir string
	// Holder describes that process, for people.
	Holder string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s already uses the data dir %s; stop it, or give another --data-dir", e.Holder, e.Dir)
}

// describe writes the holder. A reader that comes in between sees a torn text
// and says less; nothing else depends on it.
func (l *lock) describe(purpose string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return fmt.Errorf("data dir: lock: %w", os.ErrClosed)
	}
	text, err := json.Marshal(holder{PID: os.Getpid(), Purpose: purpose})
	if err != nil {
		return fmt.Errorf("data dir: lock: %w", err)
	}
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("data dir: lock: %w", explain(err))
	}
	if _, err := l.file.WriteAt(append(text, '\n'), 0); err != nil {
		return fmt.Errorf("data dir: lock: %w", explain(err))
	}
	return nil
}

func (l *lock) close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// readHolder says who holds the lock in f, as far as the file tells.
func readHolder(f *os.File) string {
	text := make([]byte, 1024)
	n, _ := f.ReadAt(text, 0)
	var h holder
	if json.Unmarshal(text[:n], &h) != nil || h.PID == 0 {
		return "another process"
	}
	return fmt.Sprintf("%s (pid %d)", h.Purpose, h.PID)
}
