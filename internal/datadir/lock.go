package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Holder is what the lock file says about the process that holds it; PID 0 where
// it cannot be read.
type Holder struct {
	PID     int    `json:"pid"`
	Purpose string `json:"purpose"`
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "another process"
	}
	return fmt.Sprintf("%s (pid %d)", h.Purpose, h.PID)
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
	if err := flock(f, unix.LOCK_EX); err != nil {
		defer func() { _ = f.Close() }()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &InUseError{Dir: dir, Holder: readHolder(f).String()}
		}
		return nil, fmt.Errorf("data dir %s: this file system has no locks, give another --data-dir: %w", dir, err)
	}
	l := &lock{file: f}
	if err := l.describe(purpose); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// A lock that is held for a moment only, by someone who looks whether it is held,
// is waited for.
const (
	lockTries = 5
	lockPause = 10 * time.Millisecond
)

func flock(f *os.File, how int) (err error) {
	for try := range lockTries {
		if try > 0 {
			time.Sleep(lockPause)
		}
		if err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
	}
	return err
}

// InUse tells whether a process holds the lock of a data dir, and what it says
// about itself. It changes nothing; a data dir that is not there is not in use.
func InUse(path string) (h Holder, inUse bool, err error) {
	f, err := os.Open(filepath.Join(path, lockFile)) //nolint:gosec // the path is ours
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("data dir: lock: %w", explain(err))
	}
	defer func() { _ = f.Close() }() // which gives the lock back
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return readHolder(f), true, nil
	case err != nil:
		return Holder{}, false, fmt.Errorf("data dir %s: lock: %w", path, err)
	}
	return Holder{}, false, nil
}

// InUseError says that another process holds a data dir's lock.
type InUseError struct {
	Dir string
	// Holder describes that process, for people.
	Holder string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s already uses the data dir %s; stop it, or give another --data-dir (mcp-sandbox shutdown stops a server, one in the background too)", e.Holder, e.Dir)
}

// describe writes the holder. A reader that comes in between sees a torn text
// and says less; nothing else depends on it.
func (l *lock) describe(purpose string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return fmt.Errorf("data dir: lock: %w", os.ErrClosed)
	}
	text, err := json.Marshal(Holder{PID: os.Getpid(), Purpose: purpose})
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
func readHolder(f *os.File) Holder {
	text := make([]byte, 1024)
	n, _ := f.ReadAt(text, 0)
	var h Holder
	if json.Unmarshal(text[:n], &h) != nil {
		return Holder{}
	}
	return h
}
