package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// logStore holds the output logs: logs/<seq>.stdout and .stderr, made when the
// first byte comes. Together they stay under a total; the logs of commands that
// ended longest ago go first.
type logStore struct {
	dir   string
	cap   int64 // of one stream
	total int64

	mu       sync.Mutex
	used     int64
	finished []*stream // oldest first, with bytes in their logs
}

func newLogStore(dir string, streamCap, total int64) (*logStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make log directory: %w", err)
	}
	return &logStore{dir: dir, cap: streamCap, total: total}, nil
}

func (l *logStore) path(seq uint64, name guest.StreamName) string {
	return filepath.Join(l.dir, strconv.FormatUint(seq, 10)+"."+string(name))
}

// reserve makes room for n bytes. It returns false when only logs that are
// being written are left.
func (l *logStore) reserve(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.used+n > l.total {
		if len(l.finished) == 0 {
			return false
		}
		l.evict()
	}
	l.used += n
	return true
}

// release gives back what was reserved and not written.
func (l *logStore) release(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used -= n
}

func (l *logStore) evict() {
	old := l.finished[0]
	l.finished = l.finished[1:]
	old.gone.Store(true)
	l.used -= old.size.Load()
	_ = os.Remove(old.path)
}

// finish makes a log a candidate for eviction. It gets no more bytes.
func (l *logStore) finish(s *stream) {
	if s.size.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = append(l.finished, s)
}

// restore finds what an earlier life of the guest logged.
func (l *logStore) restore(seq uint64, name guest.StreamName, recorded guest.Stream) *stream {
	s := &stream{store: l, path: l.path(seq, name), total: recorded.Total, closed: true, released: true}
	s.gone.Store(recorded.Logged > 0)
	if info, err := os.Stat(s.path); err == nil {
		s.gone.Store(false)
		s.size.Store(info.Size())
		s.total = max(s.total, info.Size())
		l.used += info.Size()
		l.finish(s)
	}
	return s
}

// sweep removes logs that no journal record speaks of.
func (l *logStore) sweep(known func(seq uint64) bool) {
	entries, _ := os.ReadDir(l.dir)
	for _, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), ".")
		if seq, err := strconv.ParseUint(number, 10, 64); err != nil || !known(seq) {
			_ = os.Remove(filepath.Join(l.dir, entry.Name()))
		}
	}
}

func (l *logStore) bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}
