package docker_test

import (
	"maps"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Objects have a role only where labels, kind and name agree; what has none stays
// whatever is said of it.
func TestRolesOfForeignThings(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	s := spec()
	box, _ := create(t, l.Backend, s)
	taken := snapshot(t, l.Backend, box.Ref)
	ours := l.labels(map[string]string{session.LabelKind: "container", session.LabelSession: s.SessionID, session.LabelIncarnation: "7"})

	byHand := func(cfg container.Config) string {
		created, err := l.api.ContainerCreate(ctx, &cfg, nil, nil, nil, "")
		require.NoError(t, err)
		return created.ID
	}
	foreign := map[string]bool{
		byHand(container.Config{Image: taken.ImageID}):                 true, // with the snapshot's labels
		byHand(container.Config{Image: busybox, Labels: ours}):         true, // with another name
		byHand(container.Config{Image: l.inspect(t, box.Ref).Image}):   true, // with a derived image's
		l.commit(t, box.Ref.ContainerID, "mcp-sandbox-test/mine:reap"): true, // with the container's
	}
	_, err := l.api.VolumeCreate(ctx, volume.CreateOptions{
		Name: "test-" + l.installation, Labels: l.labels(map[string]string{session.LabelKind: "volume", session.LabelSession: s.SessionID, session.LabelIncarnation: "1"}),
	})
	require.NoError(t, err)
	foreign["test-"+l.installation] = true
	require.NoError(t, l.api.ImageTag(ctx, taken.ImageID, "mcp-sandbox-test/kept:reap"))
	foreign[taken.ImageID] = true // somebody keeps it under another name

	seen := 0
	for _, r := range inventory(t, l.Backend) {
		if !foreign[r.ID] {
			require.NotEmpty(t, r.Role, "%+v", r)
			continue
		}
		seen++
		require.Empty(t, r.Role, "%+v", r)
		for _, role := range []activities.Role{
			activities.RoleSandbox, activities.RoleJournal, activities.RoleVolume, activities.RoleBuild,
			activities.RoleBridge, activities.RoleSpare, activities.RoleSnapshot, activities.RoleDerived,
		} {
			r.Role = role
			require.NoError(t, l.RemoveResource(ctx, r), "%+v", r)
		}
	}
	require.Equal(t, len(foreign), seen)
	for _, r := range inventory(t, l.Backend) {
		delete(foreign, r.ID)
	}
	require.Empty(t, foreign, "all are still there")
}

// What processes that died leave beside sessions is removed.
func TestLeftoversAreRemoved(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	s := spec(func(s *activities.SandboxSpec) { s.Network = session.NetworkFull })
	create(t, l.Backend, s)
	build, err := l.api.ContainerCreate(ctx, &container.Config{Image: busybox, Labels: l.labels(map[string]string{session.LabelKind: "build"})}, nil, nil, nil, "")
	require.NoError(t, err)
	var bridge activities.Resource
	for _, r := range inventory(t, l.Backend) {
		if r.Role == activities.RoleBridge {
			bridge = r
		}
	}
	info, err := l.api.NetworkInspect(ctx, bridge.ID, network.InspectOptions{})
	require.NoError(t, err)
	_, err = l.api.NetworkCreate(ctx, info.Name, network.CreateOptions{
		Driver: "bridge", Labels: info.Labels, Options: map[string]string{"com.docker.network.bridge.enable_icc": "false"},
	})
	spare := err == nil // engines of today refuse a second one of a name
	roles := map[activities.Role]int{}
	for _, r := range inventory(t, l.Backend) {
		roles[r.Role]++
		if r.Role == activities.RoleBuild || r.Role == activities.RoleSpare || r.Role == activities.RoleBridge {
			require.NoError(t, l.RemoveResource(ctx, r))
		}
	}
	require.Equal(t, 1, roles[activities.RoleBuild])
	require.Equal(t, 1, roles[activities.RoleBridge])
	if spare {
		require.Equal(t, 1, roles[activities.RoleSpare])
	}
	for _, r := range inventory(t, l.Backend) {
		require.NotEqual(t, build.ID, r.ID)
		require.NotEqual(t, activities.RoleSpare, r.Role)
	}
	_, err = l.api.NetworkInspect(ctx, bridge.ID, network.InspectOptions{})
	require.NoError(t, err, "the bridge stays")
}

// An earlier incarnation that stands beside a later one goes alone.
func TestEarlierIncarnationIsRemoved(t *testing.T) {
	l := newLab(t)
	s := spec()
	box, api := create(t, l.Backend, s)
	sh(t, api, "echo kept > file")
	// As if a worker had died right after it made incarnation 2.
	info := l.inspect(t, box.Ref)
	labels := info.Config.Labels
	labels[session.LabelIncarnation] = "2"
	created, err := l.api.ContainerCreate(t.Context(), &container.Config{Image: busybox, Labels: labels, Cmd: []string{"sleep", "1000"}}, nil, nil, nil,
		info.Name[:len(info.Name)-1]+"2")
	require.NoError(t, err)
	for _, r := range inventory(t, l.Backend) {
		if r.Role == activities.RoleSandbox && r.Incarnation == 2 {
			require.Equal(t, created.ID, r.ID)
			require.False(t, r.Running)
			require.NoError(t, l.RemoveResource(t.Context(), r))
		}
	}
	require.Equal(t, "kept\n", sh(t, api, "cat file"))
	for _, r := range inventory(t, l.Backend) {
		require.NotEqual(t, 2, r.Incarnation)
	}
}

// When a derived image was last used is known from the engine, and that of the
// default image is told apart.
func TestUseOfDerivedImages(t *testing.T) {
	l := newLab(t, func(o *docker.Options) { o.DefaultImage = bare })
	before := time.Now().Add(-time.Second)
	create(t, l.Backend, spec())
	other, _ := create(t, l.Backend, spec(func(s *activities.SandboxSpec) { s.Image = busybox }))
	derived := func() (found []activities.Resource) {
		for _, r := range inventory(t, l.Backend) {
			if r.Role == activities.RoleDerived {
				found = append(found, r)
			}
		}
		return found
	}
	require.Len(t, derived(), 2)
	require.NotEqual(t, derived()[0].Default, derived()[1].Default)
	for _, r := range derived() {
		require.True(t, r.InUse)
		require.WithinRange(t, r.LastUsed, before, time.Now().Add(time.Second))
		require.NoError(t, l.RemoveResource(t.Context(), r), "it is in use")
	}
	require.Len(t, derived(), 2)
	require.NoError(t, l.RemoveSession(t.Context(), other.Ref.SessionID))
	for _, r := range derived() {
		require.Equal(t, r.Default, r.InUse)
		require.NoError(t, l.RemoveResource(t.Context(), r))
	}
	require.Len(t, derived(), 1)
	require.True(t, derived()[0].Default)
}

// A use is noted by giving the image its name again.
func TestUseIsNoted(t *testing.T) {
	l := newLab(t)
	last := func() time.Time {
		for _, r := range inventory(t, l.Backend) {
			if r.Role == activities.RoleDerived {
				return r.LastUsed
			}
		}
		return time.Time{}
	}
	create(t, l.Backend, spec())
	first := last()
	create(t, l.Backend, spec())
	require.Equal(t, first, last(), "at most once a day")
	docker.UseAgain(t, time.Millisecond)
	create(t, l.Backend, spec())
	require.True(t, last().After(first))
}

// labels are this installation's, with these.
func (l lab) labels(more map[string]string) map[string]string {
	all := map[string]string{session.LabelInstallation: l.installation, session.LabelCreated: time.Now().UTC().Format(time.RFC3339)}
	maps.Copy(all, more)
	return all
}

func (l lab) inspect(t *testing.T, ref activities.SandboxRef) container.InspectResponse {
	t.Helper()
	info, err := l.api.ContainerInspect(t.Context(), ref.ContainerID)
	require.NoError(t, err)
	return info
}

// commit keeps a container as an image, as somebody may do by hand.
func (l lab) commit(t *testing.T, id, name string) (imageID string) {
	t.Helper()
	made, err := l.api.ContainerCommit(t.Context(), id, container.CommitOptions{Reference: name})
	require.NoError(t, err)
	return made.ID
}
