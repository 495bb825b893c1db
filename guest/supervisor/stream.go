package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// chunk is how much one read from a pipe takes: the default size of a pipe.
const chunk = 64 << 10

// maxPipe is the most that can stand in a pipe (fs.pipe-max-size).
const maxPipe = 1 << 20

// Idle streams hold no buffer: a session may have hundreds of them.
var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// stream carries one output stream of a command from its pipe into its log. It
// reads for as long as any process holds the other end, so that none of them
// blocks or dies of SIGPIPE; what does not fit into the log is counted.
type stream struct {
	store *logStore
	path  string
	size  atomic.Int64 // bytes in the log
	gone  atomic.Bool  // the log was evicted

	mu       sync.Mutex
	pipe     *os.File
	raw      syscall.RawConn
	log      *os.File
	total    int64
	full     bool // a byte was left out; all later ones are
	closed   bool // no process holds the other end
	released bool // the command has ended; only then may its log be evicted
	changed  chan struct{}
}

// newStream makes a pipe. The caller closes the returned end once the child has
// it, and calls pump.
func newStream(store *logStore, path string) (*stream, *os.File, error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	_ = syscall.SetNonblock(fds[0], true) // for the runtime's poller: no thread waits
	pipe := os.NewFile(uintptr(fds[0]), "pipe")
	raw, err := pipe.SyscallConn()
	if err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	s := &stream{store: store, path: path, pipe: pipe, raw: raw}
	return s, os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// pump reads until no process holds the other end, or abandon is called.
func (s *stream) pump() {
	for ended := false; !ended; {
		err := s.raw.Read(func(fd uintptr) bool {
			n, err := s.take(int(fd))
			again := errors.Is(err, syscall.EAGAIN)
			ended = n <= 0 && !again
			return !again
		})
		if err != nil {
			break
		}
	}
	s.close()
	// Not under the lock: Close waits for a drain under way, which wants it.
	_ = s.pipe.Close()
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.log != nil {
		_ = s.log.Close()
	}
	s.finish()
	s.notify()
}

// settle waits for the end of the stream up to a time, then takes what stands in
// the pipe.
func (s *stream) settle(until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		changed := s.watch()
		if !s.open() {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			s.drain()
			return
		}
	}
}

// abandon makes pump return.
func (s *stream) abandon() { _ = s.pipe.SetReadDeadline(time.Unix(1, 0)) }

// drain takes what stands in the pipe now, without waiting for its end.
func (s *stream) drain() {
	_ = s.raw.Control(func(fd uintptr) {
		for taken := 0; taken < maxPipe; {
			n, err := s.take(int(fd))
			if n <= 0 || err != nil {
				return
			}
			taken += n
		}
	})
}

// take reads once and appends. Both happen under the lock, so that pump and
// drain cannot put chunks in the wrong order.
func (s *stream) take(fd int) (int, error) {
	buf := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buf)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		n, err := syscall.Read(fd, buf[:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if n > 0 {
			s.append(buf[:n])
		}
		return n, err
	}
}

func (s *stream) append(data []byte) {
	s.total += int64(len(data))
	defer s.notify()
	if s.full {
		return
	}
	keep := data
	if room := s.store.cap - s.size.Load(); int64(len(keep)) > room {
		keep, s.full = keep[:room], true
	}
	if len(keep) == 0 {
		return
	}
	if !s.store.reserve(int64(len(keep))) {
		s.full = true
		return
	}
	n := 0
	onDisk(func() { n = s.write(keep) })
	s.size.Add(int64(n))
	if n < len(keep) {
		s.full = true
		s.store.release(int64(len(keep) - n))
	}
}

func (s *stream) write(data []byte) int {
	if s.log == nil {
		log, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return 0
		}
		s.log = log
	}
	n, _ := s.log.Write(data)
	return n
}

func (s *stream) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// watch returns a channel that is closed at the next byte or at the end.
func (s *stream) watch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// release says that the command has ended.
func (s *stream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	s.finish()
}

func (s *stream) finish() {
	if s.closed && s.released {
		s.store.finish(s)
	}
}

func (s *stream) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed
}

// counts tells the bytes written and those in the log.
func (s *stream) counts() guest.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	logged := s.size.Load()
	if s.gone.Load() {
		logged = 0
	}
	return guest.Stream{Total: s.total, Logged: logged}
}

// cut returns the counts with head and tail, at most maxBytes together.
func (s *stream) cut(maxBytes int) (guest.Stream, *guest.Error) {
	c := s.counts()
	if c.Logged == 0 || maxBytes == 0 {
		return c, nil
	}
	head, tail := int64(maxBytes/2), int64(maxBytes-maxBytes/2)
	if c.Logged <= int64(maxBytes) {
		head, tail = c.Logged, 0
	}
	var gerr *guest.Error
	if c.Head, gerr = s.slice(0, head); gerr == nil {
		c.Tail, gerr = s.slice(c.Logged-tail, tail)
	}
	if gerr != nil && gerr.Code == guest.CodeNotFound {
		return s.counts(), nil // evicted this moment
	}
	return c, gerr
}

// slice reads n bytes of the log from an offset within it.
func (s *stream) slice(offset, n int64) (data []byte, gerr *guest.Error) {
	if n <= 0 {
		return nil, nil
	}
	onDisk(func() {
		log, err := os.Open(s.path)
		if err != nil {
			gerr = guest.Errorf(guest.CodeNotFound, "the output is no longer kept: newer output took its place")
			return
		}
		defer func() { _ = log.Close() }()
		data = make([]byte, n)
		got, err := log.ReadAt(data, offset)
		data = data[:got]
		if err != nil && !errors.Is(err, io.EOF) {
			gerr = guest.Errorf(guest.CodeInternal, "read log: %v", err)
		}
	})
	return data, gerr
}
