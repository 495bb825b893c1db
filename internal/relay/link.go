package relay

import (
	"io"
	"slices"
	"sync"
)

// link is a connection to a server. Sending never blocks: what it cannot take yet
// waits, within the bounds of what the relay holds anyhow.
type link struct {
	stream io.ReadWriteCloser

	mu     sync.Mutex
	queue  [][]byte
	more   chan struct{} // holds an element when there is something in the queue
	closed chan struct{}
	once   sync.Once
}

func newLink(stream io.ReadWriteCloser) *link {
	l := &link{stream: stream, more: make(chan struct{}, 1), closed: make(chan struct{})}
	go l.write()
	return l
}

// send has a line sent, without its line break.
func (l *link) send(line []byte) {
	l.mu.Lock()
	l.queue = append(l.queue, line)
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *link) write() {
	defer l.close()
	for {
		select {
		case <-l.closed:
			return
		case <-l.more:
		}
		l.mu.Lock()
		lines := l.queue
		l.queue = nil
		l.mu.Unlock()
		for _, line := range lines {
			if _, err := l.stream.Write(append(slices.Clip(line), '\n')); err != nil {
				return
			}
		}
	}
}

// close ends the link, and with it the reading.
func (l *link) close() {
	l.once.Do(func() {
		close(l.closed)
		_ = l.stream.Close()
	})
}
