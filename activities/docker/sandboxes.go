package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// cleanupTimeout bounds the removal of what a failed step has made, which goes
// on when the step's own context has ended.
const cleanupTimeout = 20 * time.Second

// CreateSandbox implements activities.Backend. The new container is created
// before earlier ones are removed and started after: at any moment at most one
// guest of a session runs, and of two callers the one with the lower
// incarnation sees the other's container, whichever came first.
func (b *Backend) CreateSandbox(ctx context.Context, spec activities.SandboxSpec) (activities.Sandbox, error) {
	if err := checkSpec(spec); err != nil {
		return activities.Sandbox{}, err
	}
	all, err := b.sandboxesOf(ctx, spec.SessionID)
	if err != nil {
		return activities.Sandbox{}, err
	}
	if newest(all) > spec.Incarnation {
		return activities.Sandbox{}, activities.ErrSuperseded
	}
	for _, c := range all {
		if incarnationOf(c.Labels) == spec.Incarnation {
			return b.adopt(ctx, spec, c.ID)
		}
	}
	img, err := b.prepareImage(ctx, spec)
	if err != nil {
		return activities.Sandbox{}, err
	}
	if err := b.prepareVolume(ctx, spec); err != nil {
		return activities.Sandbox{}, err
	}
	id, made, err := b.createContainer(ctx, spec, img)
	if err != nil {
		b.abandon(ctx, spec, "")
		return activities.Sandbox{}, err
	}
	box, err := b.adopt(ctx, spec, id)
	if err != nil && made {
		b.abandon(ctx, spec, id)
	}
	return box, err
}

func checkSpec(spec activities.SandboxSpec) error {
	switch {
	case !sessionPattern.MatchString(spec.SessionID):
		return fmt.Errorf("session ID %q is malformed", spec.SessionID)
	case spec.Incarnation < 1:
		return fmt.Errorf("incarnation %d is below 1", spec.Incarnation)
	case spec.MemoryMB < minMemoryMB:
		return session.Errorf(session.InvalidArgument, "memory_mb: %d is below %d, which the sandbox itself needs", spec.MemoryMB, minMemoryMB)
	case spec.CPUs < minCPUs:
		return session.Errorf(session.InvalidArgument, "cpus: %g is below %g", spec.CPUs, minCPUs)
	case spec.Network != session.NetworkNone && spec.Network != session.NetworkFull:
		return session.Errorf(session.InvalidArgument, "network: %q is neither %s nor %s", spec.Network, session.NetworkNone, session.NetworkFull)
	}
	return nil
}

// adopt finishes a container that exists: whatever a process that died left
// undone is done now, and what was done is not done again.
func (b *Backend) adopt(ctx context.Context, spec activities.SandboxSpec, id string) (activities.Sandbox, error) {
	if err := b.supersede(ctx, spec); err != nil {
		return activities.Sandbox{}, err
	}
	ref := activities.SandboxRef{SessionID: spec.SessionID, Incarnation: spec.Incarnation, ContainerID: id}
	box, err := b.awake(ctx, ref)
	if errors.Is(err, activities.ErrSandboxGone) {
		if ok, volumeErr := b.hasVolume(ctx, ref); volumeErr != nil || ok {
			// Another caller failed and cleaned up: the session is not lost.
			return box, fmt.Errorf("%w: the container vanished while it was made", errEngine)
		}
	}
	return box, err
}

// supersede removes the earlier incarnations, or gives way to a later one.
func (b *Backend) supersede(ctx context.Context, spec activities.SandboxSpec) error {
	all, err := b.sandboxesOf(ctx, spec.SessionID)
	if err != nil {
		return err
	}
	if newest(all) > spec.Incarnation {
		return activities.ErrSuperseded
	}
	for _, c := range all {
		if incarnationOf(c.Labels) < spec.Incarnation {
			if err := b.removeContainer(ctx, c.ID, c.State == container.StatePaused); err != nil {
				return err
			}
			filter := b.ours(session.LabelSession, spec.SessionID, session.LabelIncarnation, c.Labels[session.LabelIncarnation])
			if err := b.removeVolumes(ctx, filter, volumeName(spec.SessionID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReviveSandbox implements activities.Backend.
func (b *Backend) ReviveSandbox(ctx context.Context, ref activities.SandboxRef) (activities.Sandbox, error) {
	all, err := b.sandboxesOf(ctx, ref.SessionID)
	if err != nil {
		return activities.Sandbox{}, err
	}
	if newest(all) > ref.Incarnation {
		return activities.Sandbox{}, activities.ErrSandboxGone
	}
	return b.awake(ctx, ref)
}

// awake sees to it that a container runs, not paused, and that its guest answers.
func (b *Backend) awake(ctx context.Context, ref activities.SandboxRef) (activities.Sandbox, error) {
	info, ok, err := b.inspectSandbox(ctx, ref)
	if err != nil {
		return activities.Sandbox{}, err
	}
	if !ok {
		return activities.Sandbox{}, activities.ErrSandboxGone
	}
	ref.ContainerID = info.ID
	state := stateOf(info)
	if state == activities.SandboxPaused && b.commits.wait(ctx, info.ID) {
		state = activities.SandboxRunning
	}
	switch state {
	case activities.SandboxRunning:
	case activities.SandboxPaused:
		err = b.api.ContainerUnpause(ctx, ref.ContainerID)
		if errdefs.IsConflict(err) || errdefs.IsInternal(err) { // somebody else was faster
			err = nil
		}
	case activities.SandboxStopped:
		err = b.start(ctx, ref)
	default:
		err = activities.ErrSandboxGone
	}
	if errdefs.IsNotFound(err) {
		err = activities.ErrSandboxGone
	}
	if err != nil {
		return activities.Sandbox{}, err
	}
	if err := b.waitGuest(ctx, ref); err != nil {
		return activities.Sandbox{}, err
	}
	return activities.Sandbox{Ref: ref, Image: info.Config.Labels[labelImage], WorkingDir: info.Config.WorkingDir}, nil
}

// start starts a container whose volume is there. The engine would make a new,
// empty one: the journal would be gone in silence.
func (b *Backend) start(ctx context.Context, ref activities.SandboxRef) error {
	ok, err := b.hasVolume(ctx, ref)
	if err != nil {
		return err
	}
	if !ok {
		return activities.ErrSandboxGone
	}
	err = b.api.ContainerStart(ctx, ref.ContainerID, container.StartOptions{})
	if errdefs.IsNotFound(err) {
		return err
	}
	return engineErr("start container", err)
}

// sandboxesOf lists a session's containers, running or not.
func (b *Backend) sandboxesOf(ctx context.Context, sessionID string) ([]container.Summary, error) {
	found, err := b.api.ContainerList(ctx, container.ListOptions{All: true, Filters: b.ours(session.LabelSession, sessionID)})
	if err != nil {
		return nil, engineErr("list containers", err)
	}
	all := found[:0]
	for _, c := range found {
		if len(c.Names) > 0 && b.isSandbox(c.Labels, c.Names[0], sessionID, incarnationOf(c.Labels)) {
			all = append(all, c)
		}
	}
	return all, nil
}

func newest(all []container.Summary) int {
	n := 0
	for _, c := range all {
		n = max(n, incarnationOf(c.Labels))
	}
	return n
}

// inspectSandbox gives a sandbox's container; ok is false when the engine has
// none, or one that is not what ref names.
func (b *Backend) inspectSandbox(ctx context.Context, ref activities.SandboxRef) (container.InspectResponse, bool, error) {
	info, err := b.api.ContainerInspect(ctx, orDefault(ref.ContainerID, containerName(ref.SessionID, ref.Incarnation)))
	if errdefs.IsNotFound(err) {
		return info, false, nil
	}
	if err != nil {
		return info, false, engineErr("inspect container", err)
	}
	ok := info.ContainerJSONBase != nil && info.Config != nil && info.State != nil &&
		b.isSandbox(info.Config.Labels, info.Name, ref.SessionID, ref.Incarnation)
	return info, ok, nil
}

// State implements activities.Backend.
func (b *Backend) State(ctx context.Context, ref activities.SandboxRef) (activities.SandboxState, error) {
	info, ok, err := b.inspectSandbox(ctx, ref)
	if err != nil {
		return "", err
	}
	if !ok {
		return activities.SandboxMissing, nil
	}
	state := stateOf(info)
	if state == activities.SandboxPaused && b.commits.under(info.ID) {
		state = activities.SandboxRunning // it will be, without anybody's help
	}
	return state, nil
}

func stateOf(info container.InspectResponse) activities.SandboxState {
	switch {
	case info.State.Paused:
		return activities.SandboxPaused
	case info.State.Running:
		return activities.SandboxRunning
	case info.State.Dead, info.State.Status == container.StateRemoving:
		return activities.SandboxMissing
	}
	return activities.SandboxStopped
}

// abandon removes what a failed CreateSandbox made: its container, and the
// volume if no incarnation ever wrote to it.
func (b *Backend) abandon(ctx context.Context, spec activities.SandboxSpec, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if id != "" {
		if err := b.removeContainer(ctx, id, false); err != nil {
			b.log.WarnContext(ctx, "half-made container not removed", session.KeySession, spec.SessionID, "error", err)
			return
		}
	}
	filter := b.ours(session.LabelSession, spec.SessionID, session.LabelIncarnation, strconv.Itoa(spec.Incarnation))
	if err := b.removeVolumes(ctx, filter, ""); err != nil {
		b.log.WarnContext(ctx, "half-made volume not removed", session.KeySession, spec.SessionID, "error", err)
	}
}
