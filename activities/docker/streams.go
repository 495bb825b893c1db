package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	// firstRetry to lastRetry is the pause between attempts to reach a guest
	// that has just been started.
	firstRetry = 5 * time.Millisecond
	lastRetry  = 250 * time.Millisecond
	// pidsReserve is how many processes and threads an exec and dial-stdio need.
	pidsReserve = 32
)

// streams keeps one client per sandbox, by its whole reference: one with another
// fence is another client, which is refused without disturbing the right one. A client opens its stream when it is
// first used and again when it broke; one that nobody asked for during
// Options.IdleStream is closed.
type streams struct {
	b    *Backend
	work sync.WaitGroup

	mu     sync.Mutex
	kept   map[activities.SandboxRef]*keptClient
	closed bool
}

type keptClient struct {
	client *guest.Client
	idle   *time.Timer
}

func newStreams(b *Backend) *streams {
	return &streams{b: b, kept: map[activities.SandboxRef]*keptClient{}}
}

// get gives the client for a container; calls on it fail when it is closed.
func (s *streams) get(ref activities.SandboxRef) (*guest.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("%w: the backend is closed", guest.ErrUnreachable)
	}
	if kept, ok := s.kept[ref]; ok {
		kept.idle.Reset(s.b.opts.IdleStream)
		return kept.client, nil
	}
	dialer := &dialer{b: s.b, streams: s, ref: ref}
	kept := &keptClient{
		client: guest.NewClient(dialer.dial, guest.Fence{Session: ref.SessionID, Incarnation: ref.Incarnation}, guest.ClientOptions{}),
	}
	kept.idle = time.AfterFunc(s.b.opts.IdleStream, func() { s.drop(func(_ activities.SandboxRef, k *keptClient) bool { return k == kept }) })
	s.kept[ref] = kept
	return kept.client, nil
}

func (k *keptClient) close() {
	k.idle.Stop()
	_ = k.client.Close()
}

// dropContainer closes the streams to a container that is to go.
func (s *streams) dropContainer(id string) {
	s.drop(func(ref activities.SandboxRef, _ *keptClient) bool { return ref.ContainerID == id })
}

func (s *streams) drop(match func(activities.SandboxRef, *keptClient) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, kept := range s.kept {
		if match(ref, kept) {
			delete(s.kept, ref)
			kept.close()
		}
	}
}

// close closes all streams and waits for what they still have to put right.
func (s *streams) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.drop(func(activities.SandboxRef, *keptClient) bool { return true })
	s.work.Wait()
}

// dialer opens the stream to one container's guest.
type dialer struct {
	b       *Backend
	streams *streams
	ref     activities.SandboxRef

	mu    sync.Mutex
	dials int
}

// dial looks at the container first: its labels must be the sandbox's, and a
// full pids cgroup would let no stream in.
func (d *dialer) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	d.mu.Lock()
	again := d.dials
	d.dials++
	d.mu.Unlock()
	info, ok, err := d.b.inspectSandbox(ctx, d.ref)
	if err != nil {
		return nil, err
	}
	if !ok || stateOf(info) == activities.SandboxStopped {
		return nil, activities.ErrSandboxGone
	}
	if stateOf(info) == activities.SandboxPaused {
		d.b.commits.wait(ctx, info.ID) // a paused container takes no stream
	}
	restore := func() {}
	if again > 0 {
		restore = d.b.makeRoom(ctx, info, again)
	}
	stream, err := d.b.execute(ctx, d.ref.ContainerID, guestPath, "dial-stdio", "--state", stateDir)
	if err != nil {
		restore()
		if errdefs.IsNotFound(err) {
			return nil, activities.ErrSandboxGone
		}
		return nil, engineErr("open a stream to the guest", err)
	}
	stream.onOpen = func() { d.streams.work.Go(restore) }
	return stream, nil
}

// makeRoom raises the pids limit of a container that is at it, more with each
// attempt, as what fills it may take the room first. The result puts the limit
// back, which leaves alone what runs.
func (b *Backend) makeRoom(ctx context.Context, info container.InspectResponse, attempt int) (restore func()) {
	limit := b.opts.PidsLimit
	if info.HostConfig != nil && info.HostConfig.PidsLimit != nil {
		// Not one that somebody raised and had no time to put back.
		limit = min(limit, *info.HostConfig.PidsLimit)
	}
	used, err := b.pids(ctx, info.ID)
	if err != nil || used+pidsReserve <= limit {
		return func() {}
	}
	room := used + int64(pidsReserve*min(attempt, 8))
	b.log.WarnContext(ctx, "sandbox is at its process limit: raised for a moment", session.KeySession, info.Config.Labels[session.LabelSession], "used", used, "limit", limit)
	if err := b.limitPids(ctx, info.ID, room); err != nil {
		b.log.WarnContext(ctx, "process limit not raised", "error", err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if err := b.limitPids(ctx, info.ID, limit); err != nil && !errdefs.IsNotFound(err) {
			b.log.WarnContext(ctx, "process limit not put back", "error", err)
		}
	}
}

func (b *Backend) limitPids(ctx context.Context, id string, limit int64) error {
	_, err := b.api.ContainerUpdate(ctx, id, container.UpdateConfig{Resources: container.Resources{PidsLimit: &limit}})
	return err
}

// pids counts a container's processes and threads.
func (b *Backend) pids(ctx context.Context, id string) (int64, error) {
	answer, err := b.api.ContainerStatsOneShot(ctx, id)
	if err != nil {
		return 0, engineErr("read statistics", err)
	}
	defer func() { _ = answer.Body.Close() }()
	var stats container.StatsResponse
	if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil {
		return 0, engineErr("read statistics", err)
	}
	return int64(stats.PidsStats.Current), nil //nolint:gosec // a count of processes
}
