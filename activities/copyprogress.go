package activities

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// copyProgress counts what a copy has done. Its details are the heartbeat.
type copyProgress struct {
	callID string

	mu                     sync.Mutex
	phase                  string
	totalFiles, totalBytes int64

	files, bytes atomic.Int64
}

func (p *copyProgress) set(phase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase = phase
}

func (p *copyProgress) total(files int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.totalFiles, p.totalBytes = int64(files), bytes
	p.files.Store(0)
	p.bytes.Store(0)
}

func (p *copyProgress) details() any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return session.CopyProgress{
		CallID: p.callID, Phase: p.phase, Files: p.files.Load(), Bytes: p.bytes.Load(),
		TotalFiles: p.totalFiles, TotalBytes: p.totalBytes,
	}
}

// telling counts what is read.
type telling struct {
	io.Reader
	p *copyProgress
}

func (t *telling) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	t.p.bytes.Add(int64(n))
	return n, err
}
