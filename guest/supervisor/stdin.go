package supervisor

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// maxStdin is how much input may wait for a command to read it: 1 MiB.
const maxStdin = 1 << 20

// stdin feeds a command. Writers never block: what the pipe does not take waits
// in memory, up to maxStdin.
type stdin struct {
	mu      sync.Mutex
	pipe    *os.File
	pending []byte
	feeding bool
	closing bool // close once pending is written
	closed  bool
	broken  bool // the command closed its end
}

// newStdin makes a pipe; the caller closes the returned end after the fork.
func newStdin() (*stdin, *os.File, error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	_ = syscall.SetNonblock(fds[1], true)
	return &stdin{pipe: os.NewFile(uintptr(fds[1]), "pipe")}, os.NewFile(uintptr(fds[0]), "pipe"), nil
}

// write takes all of data or nothing, and closes stdin after it if asked to.
func (i *stdin) write(data []byte, end bool) *guest.Error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.broken:
		return guest.Errorf(guest.CodePrecondition, "the command has closed its stdin")
	case i.closed || i.closing:
		return guest.Errorf(guest.CodePrecondition, "stdin is closed")
	case len(i.pending)+len(data) > maxStdin:
		return guest.Errorf(guest.CodeExhausted,
			"the command does not read its stdin: %d bytes wait, at most %d may; nothing was written", len(i.pending), maxStdin)
	}
	i.pending = append(i.pending, data...)
	i.closing = end
	if !i.feeding && (len(i.pending) > 0 || end) {
		i.feeding = true
		go i.feed()
	}
	return nil
}

// feed writes until nothing is pending.
func (i *stdin) feed() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.pending) > 0 && !i.closed {
		data := i.pending[:min(len(i.pending), chunk)]
		i.mu.Unlock()
		n, err := i.pipe.Write(data)
		i.mu.Lock()
		i.pending = i.pending[min(n, len(i.pending)):]
		if err != nil {
			i.broken = errors.Is(err, syscall.EPIPE)
			i.shut()
		}
	}
	i.feeding = false
	if i.closing {
		i.shut()
	}
}

func (i *stdin) shut() {
	if !i.closed {
		i.closed = true
		i.pending = nil
		_ = i.pipe.Close()
	}
}

// close drops what is pending and closes stdin.
func (i *stdin) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.shut()
}
