package fake

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Image is the only image there is, and the default.
const Image = "fake"

// PIDsLimit is what guests report as their process limit.
const PIDsLimit = 512

// Backend implements activities.Backend. Make it with New.
type Backend struct {
	dir string

	mu        sync.Mutex // over everything below; held over whole operations
	sessions  map[string]*sessionState
	snapshots map[string]*snapshotState
	faults    map[string]error
	clients   map[activities.SandboxRef]*guest.Client
}

var _ activities.Backend = (*Backend)(nil)

// sessionState is a session's container and volume.
type sessionState struct {
	spec    activities.SandboxSpec
	box     activities.Sandbox
	created time.Time
	volume  time.Time
	process *process // nil once it has ended
	exists  bool     // the container
	from    string   // the snapshot it was made from
}

// New makes a backend whose folders are under dir, which should have a short
// name: sockets are in it. Close ends its sandboxes.
func New(dir string) *Backend {
	return &Backend{
		dir: dir, sessions: map[string]*sessionState{}, snapshots: map[string]*snapshotState{},
		faults: map[string]error{}, clients: map[activities.SandboxRef]*guest.Client{},
	}
}

// FailNext makes the next call of a method, named as in activities.Backend,
// return err and do nothing.
func (b *Backend) FailNext(method string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults[method] = err
}

// enter locks the backend and gives the fault that was asked for, if any.
func (b *Backend) enter(ctx context.Context, method string) error {
	b.mu.Lock()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := b.faults[method]
	delete(b.faults, method)
	return err
}

// HostID implements activities.Backend.
func (b *Backend) HostID() string { return "fake-host" }

// Check implements activities.Backend.
func (b *Backend) Check(ctx context.Context) error {
	defer b.mu.Unlock()
	return b.enter(ctx, "Check")
}

// Close ends all sandboxes, unlike that of a backend with an engine.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, s := range b.sessions {
		b.end(s)
		delete(b.sessions, id)
	}
	return nil
}

// State implements activities.Backend.
func (b *Backend) State(ctx context.Context, ref activities.SandboxRef) (activities.SandboxState, error) {
	defer b.mu.Unlock()
	if err := b.enter(ctx, "State"); err != nil {
		return "", err
	}
	s := b.find(ref)
	switch {
	case s == nil:
		return activities.SandboxMissing, nil
	case s.process != nil && s.process.alive():
		return activities.SandboxRunning, nil
	}
	return activities.SandboxStopped, nil
}

// find gives the session whose container ref names, or nil.
func (b *Backend) find(ref activities.SandboxRef) *sessionState {
	s := b.sessions[ref.SessionID]
	if s == nil || !s.exists || s.box.Ref.Incarnation != ref.Incarnation ||
		(ref.ContainerID != "" && ref.ContainerID != s.box.Ref.ContainerID) {
		return nil
	}
	return s
}

// Guest implements activities.Backend.
func (b *Backend) Guest(ctx context.Context, ref activities.SandboxRef) (guest.API, error) {
	defer b.mu.Unlock()
	if err := b.enter(ctx, "Guest"); err != nil {
		return nil, err
	}
	if ref.ContainerID == "" {
		s := b.find(ref)
		if s == nil {
			return nil, activities.ErrSandboxGone
		}
		ref = s.box.Ref
	}
	return b.client(ref), nil
}

// Inventory implements activities.Backend.
func (b *Backend) Inventory(ctx context.Context) ([]activities.Resource, error) {
	defer b.mu.Unlock()
	if err := b.enter(ctx, "Inventory"); err != nil {
		return nil, err
	}
	var all []activities.Resource
	for id, s := range b.sessions {
		r := activities.Resource{SessionID: id, Incarnation: s.spec.Incarnation}
		if s.exists {
			r.Kind, r.Role, r.ID, r.Created = activities.KindContainer, activities.RoleSandbox, s.box.Ref.ContainerID, s.created
			r.Running = s.process != nil && s.process.alive()
			all = append(all, r)
		}
		r.Kind, r.Role, r.ID, r.Created, r.Running = activities.KindVolume, activities.RoleJournal, "volume-"+id, s.volume, false
		all = append(all, r)
	}
	used := b.used()
	for id, snap := range b.snapshots {
		all = append(all, activities.Resource{
			Kind: activities.KindImage, Role: activities.RoleSnapshot, ID: snap.image.ImageID,
			SessionID: snap.session, SnapshotID: id, Created: snap.image.CreatedAt, InUse: used[id],
		})
	}
	return all, nil
}

// RemoveResource implements activities.Backend.
func (b *Backend) RemoveResource(ctx context.Context, r activities.Resource) error {
	defer b.mu.Unlock()
	if err := b.enter(ctx, "RemoveResource"); err != nil {
		return err
	}
	switch r.Role {
	case activities.RoleSandbox:
		ref := activities.SandboxRef{SessionID: r.SessionID, Incarnation: r.Incarnation, ContainerID: r.ID}
		if s := b.find(ref); s != nil {
			b.end(s)
			s.exists = false
		}
	case activities.RoleJournal:
		if s := b.sessions[r.SessionID]; s != nil && !s.exists && r.ID == "volume-"+r.SessionID {
			delete(b.sessions, r.SessionID)
			return os.RemoveAll(b.sessionDir(r.SessionID))
		}
	case activities.RoleSnapshot:
		if snap := b.snapshots[r.SnapshotID]; snap != nil && snap.image.ImageID == r.ID && !b.used()[r.SnapshotID] {
			snap.deleted = true
			b.dropDeleted()
		}
	case activities.RoleVolume, activities.RoleBuild, activities.RoleBridge, activities.RoleSpare, activities.RoleDerived:
	}
	return nil
}

// RemoveSession implements activities.Backend.
func (b *Backend) RemoveSession(ctx context.Context, sessionID string) error {
	defer b.mu.Unlock()
	if err := b.enter(ctx, "RemoveSession"); err != nil {
		return err
	}
	s := b.sessions[sessionID]
	if s == nil {
		return nil
	}
	b.end(s)
	delete(b.sessions, sessionID)
	b.dropDeleted()
	return os.RemoveAll(b.sessionDir(sessionID))
}

// Crash ends a sandbox's processes at once, as when its engine dies: its
// container is stopped then, and its files are there.
func (b *Backend) Crash(ref activities.SandboxRef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.find(ref); s != nil && s.process != nil {
		s.process.kill()
	}
}

// Remove removes a sandbox's container behind the session's back; the volume
// stays.
func (b *Backend) Remove(ref activities.SandboxRef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.find(ref); s != nil {
		b.end(s)
		s.exists = false
	}
}

// end ends a session's process and the clients of its container.
func (b *Backend) end(s *sessionState) {
	for ref, c := range b.clients {
		if ref.SessionID == s.spec.SessionID {
			_ = c.Close()
			delete(b.clients, ref)
		}
	}
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}

func (b *Backend) sessionDir(id string) string { return filepath.Join(b.dir, id) }

func noImage(ref string) error {
	return session.Errorf(session.NotFound, "image %q does not exist; the fake backend has %q alone", ref, Image)
}
