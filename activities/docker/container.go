package docker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/go-units"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	// minMemoryMB is what the guest and the engine's own helpers need.
	minMemoryMB = 16
	minCPUs     = 0.05
	cpuPeriod   = 100_000 // microseconds, the kernel's default
	// maxFiles is what any engine may give, also one that itself runs in a
	// container without SYS_RESOURCE, and no burden for programs that close
	// every descriptor there could be.
	maxFiles = 16_384
	shmSize  = 64 << 20 // bytes of /dev/shm, which count as memory
	// lifetimeGrace is how long after the session's end the guest ends itself.
	lifetimeGrace = time.Hour
)

// capabilities are the guest's; commands run without any.
var capabilities = []string{"SETUID", "SETGID", "KILL", "CHOWN"}

// networkCapabilities are the guest's in a sandbox with a network, from its
// start until it has closed what is to be closed, before it serves.
var networkCapabilities = []string{"NET_ADMIN", "SETPCAP"}

// createContainer makes a sandbox's container, or finds the one of that name.
func (b *Backend) createContainer(ctx context.Context, spec activities.SandboxSpec, img readyImage) (id string, made bool, err error) {
	host, err := b.hostConfig(ctx, spec, img)
	if err != nil {
		return "", false, err
	}
	config := b.config(spec, img)
	if spec.Network == session.NetworkFull {
		args, err := b.networkArgs(ctx, img)
		if err != nil {
			return "", false, err
		}
		config.Cmd = append(config.Cmd, args...)
	}
	name := containerName(spec.SessionID, spec.Incarnation)
	started := time.Now()
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		created, err := b.createOnce(ctx, config, host, name)
		if err == nil {
			return created, true, nil
		}
		if !errdefs.IsConflict(err) {
			return "", false, engineErr("create container", err)
		}
		info, ok, inspectErr := b.inspectSandbox(ctx, activities.SandboxRef{SessionID: spec.SessionID, Incarnation: spec.Incarnation})
		if inspectErr != nil {
			return "", false, inspectErr
		}
		if ok {
			return info.ID, false, nil
		}
		if info.ContainerJSONBase != nil {
			return "", false, fmt.Errorf("a container named %s exists that is not this sandbox; remove or rename it: %w", name, err)
		}
		// The engine reserves a name a while before there is a container, and
		// until its last bit is removed.
		if time.Since(started) > cleanupTimeout || !pauseFor(ctx, pause) {
			return "", false, engineErr("create container", err)
		}
	}
}

// createOnce sees a creation through when ctx ends meanwhile: the engine would,
// and nobody would know the container that is to be removed again.
func (b *Backend) createOnce(ctx context.Context, config *container.Config, host *container.HostConfig, name string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	created, err := b.api.ContainerCreate(ctx, config, host, nil, nil, name)
	return created.ID, err
}

// pauseFor waits, and tells whether ctx still goes on.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (b *Backend) sandboxLabels(kind string, spec activities.SandboxSpec) map[string]string {
	return b.labels(kind, map[string]string{
		session.LabelSession:     spec.SessionID,
		session.LabelIncarnation: strconv.Itoa(spec.Incarnation),
		session.LabelOwner:       spec.Owner,
		session.LabelCall:        spec.CallID,
	})
}

// config holds no environment: a commit would copy it. The guest gets it in
// requests.
func (b *Backend) config(spec activities.SandboxSpec, img readyImage) *container.Config {
	labels := b.sandboxLabels(kindContainer, spec)
	labels[labelImage] = img.reference
	labels[labelGuest] = b.guest.version
	labels[session.LabelSnapshot] = spec.SnapshotID
	return &container.Config{
		Image:       img.id,
		Hostname:    "sandbox",
		User:        "0",
		WorkingDir:  img.workingDir,
		Entrypoint:  []string{guestPath},
		Cmd:         b.guestArgs(spec, img),
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		Labels:      labels,
		StopSignal:  "SIGTERM",
		StopTimeout: new(2), // seconds; for whoever stops it by hand
	}
}

func (b *Backend) guestArgs(spec activities.SandboxSpec, img readyImage) []string {
	args := []string{
		"init", "--session", spec.SessionID, "--incarnation", strconv.Itoa(spec.Incarnation), "--state", stateDir,
		"--home", homeDir, "--workdir", img.workingDir,
	}
	if !spec.ExpiresAt.IsZero() {
		left := max(time.Until(spec.ExpiresAt.Add(lifetimeGrace)), time.Second)
		args = append(args, "--lifetime", strconv.FormatInt(int64(left/time.Second), 10))
	}
	if b.opts.LogCap > 0 {
		args = append(args, "--log-cap", strconv.FormatInt(b.opts.LogCap, 10))
	}
	return args
}

// hostConfig is the sandbox's walls. What is not set here is the engine's
// default on purpose: its seccomp and AppArmor profiles, masked paths, a private
// PID and mount namespace, no devices.
func (b *Backend) hostConfig(ctx context.Context, spec activities.SandboxSpec, img readyImage) (*container.HostConfig, error) {
	network, caps := container.NetworkMode("none"), capabilities
	var dns []string
	if spec.Network == session.NetworkFull {
		name, err := b.bridge(ctx)
		if err != nil {
			return nil, err
		}
		network, caps = container.NetworkMode(name), slices.Concat(capabilities, networkCapabilities)
		for _, a := range b.opts.DNS {
			dns = append(dns, a.String())
		}
	}
	security := []string{"no-new-privileges"}
	if b.platform.Builtin {
		security = append(security, "seccomp=builtin")
	}
	memory := int64(spec.MemoryMB) << 20
	return &container.HostConfig{
		NetworkMode:   network,
		IpcMode:       container.IPCModePrivate,
		CapDrop:       []string{"ALL"},
		CapAdd:        caps,
		DNS:           dns,
		SecurityOpt:   security,
		LogConfig:     container.LogConfig{Type: "none"},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Init:          new(false),
		ShmSize:       shmSize,
		Runtime:       b.opts.Runtime,
		Mounts:        b.mounts(spec, img),
		Resources: container.Resources{
			Memory:     memory,
			MemorySwap: memory, // no swap beside it
			// Not NanoCPUs: the engine refuses more of those than the host has,
			// and a default of 2 must work on one CPU.
			CPUPeriod: cpuPeriod,
			CPUQuota:  int64(spec.CPUs * cpuPeriod),
			PidsLimit: new(b.opts.PidsLimit),
			Ulimits: []*units.Ulimit{
				{Name: "nofile", Soft: maxFiles, Hard: maxFiles},
				{Name: "core", Soft: 0, Hard: 0},
			},
		},
	}, nil
}

// mounts are the session's volume, and in the place of each VOLUME of the image
// a volume of this incarnation, named and labelled where the engine would make
// an anonymous one.
func (b *Backend) mounts(spec activities.SandboxSpec, img readyImage) []mount.Mount {
	all := []mount.Mount{{
		Type: mount.TypeVolume, Source: volumeName(spec.SessionID), Target: stateDir,
		// NoCopy: what an image has at that path never becomes a journal.
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: b.sandboxLabels(kindVolume, spec)},
	}}
	for i, target := range img.volumes {
		all = append(all, mount.Mount{
			Type: mount.TypeVolume, Target: target,
			Source:        fmt.Sprintf("%s-v%d", containerName(spec.SessionID, spec.Incarnation), i),
			VolumeOptions: &mount.VolumeOptions{Labels: b.sandboxLabels(kindVolume, spec)},
		})
	}
	return all
}

// prepareVolume makes the session's volume for the first incarnation. Later ones
// must find it: without the journal nothing is known of the session's calls.
func (b *Backend) prepareVolume(ctx context.Context, spec activities.SandboxSpec) error {
	ok, err := b.hasVolume(ctx, activities.SandboxRef{SessionID: spec.SessionID, Incarnation: spec.Incarnation})
	if err != nil || ok {
		return err
	}
	if spec.Incarnation > 1 {
		return activities.ErrSandboxGone
	}
	_, err = b.api.VolumeCreate(ctx, volume.CreateOptions{Name: volumeName(spec.SessionID), Labels: b.sandboxLabels(kindVolume, spec)})
	return engineErr("create volume", err)
}

// hasVolume tells whether the volume with the session's journal is there. One
// that a later incarnation's container brought along is not it: the engine
// makes a missing volume again, empty, labelled as the mount says.
func (b *Backend) hasVolume(ctx context.Context, ref activities.SandboxRef) (bool, error) {
	found, err := b.api.VolumeInspect(ctx, volumeName(ref.SessionID))
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, engineErr("inspect volume", err)
	}
	if !b.isOurs(found.Labels, kindVolume) || found.Labels[session.LabelSession] != ref.SessionID {
		return false, fmt.Errorf("a volume named %s exists that is not this session's; remove it", found.Name)
	}
	return incarnationOf(found.Labels) == 1, nil
}

// excluded lists where the sandbox user can write and a snapshot does not reach:
// memory file systems and volumes. Nothing else is mounted that this user could
// write to: /proc and /sys hold no files, the rest of /dev and /etc/hosts,
// /etc/hostname and /etc/resolv.conf are root's, as is the guest's state.
func excluded(info container.InspectResponse) []string {
	places := []string{"/dev/shm", "/dev/mqueue"}
	for _, m := range info.Mounts {
		if !covers(guestDir, m.Destination) {
			places = append(places, m.Destination)
		}
	}
	return places
}

func joinPlaces(places []string) string { return strings.Join(places, "\n") }

func splitPlaces(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
