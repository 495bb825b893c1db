package supervisor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
)

// The operations, as the journal names them.
const (
	opRun   = "run"
	opInput = "input"
	opStop  = "stop"
	opWrite = "write_file"
	opEdit  = "edit_file"

	opCopyIn = "copy_in"
)

// Times of the end: commands get stopGrace after TERM, and all of Close is over
// within stopLimit, whatever processes do.
const (
	stopGrace = 300 * time.Millisecond
	stopLimit = 800 * time.Millisecond
	// flushLimit is for answers under way; HTTP/2 itself would take a second.
	flushLimit = 50 * time.Millisecond
)

// Supervisor is the running guest. It implements guest.API.
type Supervisor struct {
	opts    Options
	boot    string
	journal *journal.Journal
	logs    *logStore
	staging *staging
	reaper  *reaper
	spawner *spawner
	tracker *tracker
	cgroup  *cgroup
	server  *http.Server
	turns   turns

	ctx    context.Context //nolint:containedctx // the life of the supervisor, which outlives every request
	cancel context.CancelFunc
	work   sync.WaitGroup // commands' followers and pumps, calls that have begun

	mu       sync.Mutex
	commands map[string]*command // by call ID
	running  int
	closing  bool
}

var _ guest.API = (*Supervisor)(nil)

// New opens the state directory and takes over the waiting for all children of
// this process: there can be one Supervisor in a process, and no os/exec beside
// it. The errors of journal.Open come through.
func New(opts Options) (*Supervisor, error) {
	opts = opts.withDefaults()
	if opts.Fence.Session == "" || opts.Fence.Incarnation < 1 || opts.State == "" {
		return nil, errors.New("supervisor needs a session, an incarnation from 1 and a state directory")
	}
	if err := os.MkdirAll(opts.State, 0o700); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	boot := rand.Text()
	j, err := journal.Open(filepath.Join(opts.State, "journal"), journal.Options{
		Session: opts.Fence.Session, Incarnation: opts.Fence.Incarnation,
		Boot: boot, Permanent: opRun, Now: opts.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	logs, err := newLogStore(filepath.Join(opts.State, "logs"), opts.LogCap, opts.LogTotal)
	if err != nil {
		_ = j.Close()
		return nil, err
	}
	staged, err := newStaging(filepath.Join(opts.State, "staging"), opts.Now)
	if err != nil {
		_ = j.Close()
		return nil, err
	}
	s := &Supervisor{opts: opts, boot: boot, journal: j, logs: logs, staging: staged, commands: map[string]*command{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.restore()
	s.reaper = startReaper()
	s.spawner = &spawner{reaper: s.reaper, marker: startOOMMarker(opts.Identity), nice: startNiceThread()}
	s.tracker = newTracker(s.reaper)
	s.cgroup = openCgroup(opts.CgroupRoot)
	s.server = s.newServer()
	return s, nil
}

// Close ends every command (TERM, then KILL after 300 ms), answers those who
// wait for one, and frees everything. It takes less than a second.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return nil
	}
	s.closing = true
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	s.endAll(ctx)
	s.awaitWork(ctx)
	s.cancel() // those who wait answer with what they have
	flush, cancelFlush := context.WithTimeout(context.Background(), flushLimit)
	defer cancelFlush()
	if err := s.server.Shutdown(flush); err != nil {
		_ = s.server.Close()
	}
	s.reaper.close()
	s.spawner.marker.close()
	s.spawner.nice.close()
	s.cgroup.close()
	return s.journal.Close()
}

// enter counts a call whose effect Close waits for. It refuses when the guest
// is ending; else the caller calls s.work.Done.
func (s *Supervisor) enter() *guest.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return guest.Errorf(guest.CodePrecondition, "the sandbox is ending: nothing was done")
	}
	s.work.Add(1)
	return nil
}

// endAll ends every tree there is, also what ended commands left behind.
func (s *Supervisor) endAll(ctx context.Context) {
	s.mu.Lock()
	var all []*command
	for _, c := range s.commands {
		if c.child != nil {
			all = append(all, c)
		}
	}
	s.mu.Unlock()
	for _, c := range all {
		done, _ := c.end(guest.StatusStopped)
		defer done()
	}
	if s.tracker.byGroup {
		s.tracker.terminate(ctx, tree{}, stopGrace)
		return
	}
	var ends sync.WaitGroup
	for _, c := range all {
		ends.Go(func() { s.tracker.terminate(ctx, c.tree(), stopGrace) })
	}
	ends.Wait()
}

// awaitWork waits for the followers, which record how their commands ended.
func (s *Supervisor) awaitWork(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commands {
		if c.child != nil {
			c.out.abandon()
			c.err.abandon()
		}
	}
}

// restore rebuilds the commands of earlier lives from the journal.
func (s *Supervisor) restore() {
	known := map[uint64]bool{}
	for _, e := range s.journal.Entries() {
		if e.Op != opRun {
			continue
		}
		known[e.Seq] = true
		s.commands[e.ID] = s.restored(e)
	}
	s.logs.sweep(func(seq uint64) bool { return known[seq] })
}
