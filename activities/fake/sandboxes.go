package fake

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/supervisor"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// CreateSandbox implements activities.Backend.
func (b *Backend) CreateSandbox(ctx context.Context, spec activities.SandboxSpec) (activities.Sandbox, error) {
	defer b.mu.Unlock()
	if err := b.enter(ctx, "CreateSandbox"); err != nil {
		return activities.Sandbox{}, err
	}
	s := b.sessions[spec.SessionID]
	switch {
	case s != nil && s.exists && s.spec.Incarnation > spec.Incarnation:
		return activities.Sandbox{}, activities.ErrSuperseded
	case s != nil && s.exists && s.spec.Incarnation == spec.Incarnation:
		return b.start(ctx, s)
	}
	image, err := b.image(spec)
	if err != nil {
		return activities.Sandbox{}, err
	}
	if s == nil {
		if spec.Incarnation > 1 {
			return activities.Sandbox{}, activities.ErrSandboxGone
		}
		s = &sessionState{volume: time.Now()}
		b.sessions[spec.SessionID] = s
	}
	if s.spec.SessionID != "" {
		b.end(s)
	}
	ref := activities.SandboxRef{SessionID: spec.SessionID, Incarnation: spec.Incarnation, ContainerID: strings.ToLower(rand.Text())}
	s.spec, s.created, s.exists, s.from = spec, time.Now(), true, spec.SnapshotID
	s.box = activities.Sandbox{Ref: ref, Image: image, WorkingDir: b.filesDir(spec.SessionID)}
	if err := b.fill(s); err != nil {
		return activities.Sandbox{}, err
	}
	return b.start(ctx, s)
}

// image gives the reference of the image a sandbox is made of.
func (b *Backend) image(spec activities.SandboxSpec) (string, error) {
	if spec.SnapshotID != "" {
		snap := b.snapshots[spec.SnapshotID]
		if snap == nil || snap.deleted {
			return "", session.NoSnapshot(spec.SnapshotID)
		}
		return snap.image.BaseImage, nil
	}
	if spec.Image != "" && spec.Image != Image {
		return "", noImage(spec.Image)
	}
	return Image, nil
}

// fill makes the files of a new container, and what stands for its cgroup.
func (b *Backend) fill(s *sessionState) error {
	dir := s.box.WorkingDir
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a home directory
		return err
	}
	if s.from != "" {
		if err := copyTree(b.snapshotDir(s.from), dir); err != nil {
			return err
		}
	}
	cgroup := filepath.Join(b.sessionDir(s.spec.SessionID), "cgroup")
	if err := os.MkdirAll(cgroup, 0o700); err != nil {
		return err
	}
	for name, value := range map[string]int{
		"cgroup.controllers": 0, "memory.current": 1 << 20, "memory.max": s.spec.MemoryMB << 20, "pids.current": 1, "pids.max": PIDsLimit,
	} {
		if err := os.WriteFile(filepath.Join(cgroup, name), []byte(strconv.Itoa(value)+"\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// ReviveSandbox implements activities.Backend.
func (b *Backend) ReviveSandbox(ctx context.Context, ref activities.SandboxRef) (activities.Sandbox, error) {
	defer b.mu.Unlock()
	if err := b.enter(ctx, "ReviveSandbox"); err != nil {
		return activities.Sandbox{}, err
	}
	s := b.find(ref)
	if s == nil {
		return activities.Sandbox{}, activities.ErrSandboxGone
	}
	return b.start(ctx, s)
}

// start sees to it that a container's guest runs and answers.
func (b *Backend) start(ctx context.Context, s *sessionState) (activities.Sandbox, error) {
	if s.process != nil && s.process.alive() {
		return s.box, nil
	}
	dir := b.sessionDir(s.spec.SessionID)
	var err error
	s.process, err = startProcess(guestOptions{
		Session: s.spec.SessionID, Incarnation: s.spec.Incarnation,
		State: filepath.Join(dir, "state"), Cgroup: filepath.Join(dir, "cgroup"), Home: s.box.WorkingDir,
	})
	if err != nil {
		return activities.Sandbox{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		_, err := b.client(s.box.Ref).Hello(ctx)
		if err == nil {
			return s.box, nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.process.done:
			return activities.Sandbox{}, fmt.Errorf("the guest has ended: %w", err)
		case <-ctx.Done():
			return activities.Sandbox{}, err
		}
	}
}

// client gives the kept client of a container.
func (b *Backend) client(ref activities.SandboxRef) *guest.Client {
	if c := b.clients[ref]; c != nil {
		return c
	}
	socket := filepath.Join(b.sessionDir(ref.SessionID), "state", supervisor.SocketName)
	dial := func(ctx context.Context) (io.ReadWriteCloser, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	c := guest.NewClient(dial, guest.Fence{Session: ref.SessionID, Incarnation: ref.Incarnation}, guest.ClientOptions{})
	b.clients[ref] = c
	return c
}

func (b *Backend) filesDir(id string) string { return filepath.Join(b.sessionDir(id), "files") }
