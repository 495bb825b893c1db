package docker_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

var allLabels = []string{
	session.LabelInstallation, session.LabelSession, session.LabelIncarnation, session.LabelOwner,
	session.LabelCreated, session.LabelKind, session.LabelCall,
}

func TestLabels(t *testing.T) {
	l := newLab(t)
	s := spec(func(s *activities.SandboxSpec) { s.Network = session.NetworkFull })
	box, _ := create(t, l.Backend, s)
	info, err := l.api.ContainerInspect(t.Context(), box.Ref.ContainerID)
	require.NoError(t, err)
	require.Equal(t, "/mcp-sandbox-"+strings.TrimPrefix(s.SessionID, "s_")[:10]+"-1", info.Name)
	volume, err := l.api.VolumeInspect(t.Context(), "mcp-sandbox-"+strings.TrimPrefix(s.SessionID, "s_"))
	require.NoError(t, err)
	taken := snapshot(t, l.Backend, box.Ref)
	found, err := l.api.ImageInspect(t.Context(), taken.ImageID)
	require.NoError(t, err)
	for kind, labels := range map[string]map[string]string{
		"container": info.Config.Labels, "volume": volume.Labels, "image": found.Config.Labels,
	} {
		require.Equal(t, kind, labels[session.LabelKind])
		require.Equal(t, s.SessionID, labels[session.LabelSession])
		for _, name := range allLabels {
			require.NotEmpty(t, labels[name], "%s of a %s", name, kind)
		}
	}
	require.Equal(t, taken.SnapshotID, found.Config.Labels[session.LabelSnapshot])
	require.NotEqual(t, s.CallID, found.Config.Labels[session.LabelCall], "that of the snapshot's call")
	networks := 0
	for _, r := range inventory(t, l.Backend) {
		if r.Kind == activities.KindNetwork {
			networks++
			require.Empty(t, r.SessionID)
		}
	}
	require.Equal(t, 1, networks)
}

func TestRemoveIsQuick(t *testing.T) { // D2
	l := newLab(t)
	for _, paused := range []bool{false, true} {
		s := spec()
		box, api := create(t, l.Backend, s)
		_, err := api.Run(t.Context(), guest.RunRequest{CallID: "background", Command: "trap '' TERM; sleep 1000", MaxOutput: 100})
		require.NoError(t, err)
		if paused {
			require.NoError(t, l.api.ContainerPause(t.Context(), box.Ref.ContainerID))
		}
		began := time.Now()
		require.NoError(t, l.RemoveSession(t.Context(), s.SessionID))
		require.Less(t, time.Since(began), time.Second)
	}
}

func TestPaused(t *testing.T) {
	l := newLab(t)
	box, api := create(t, l.Backend, spec())
	require.NoError(t, l.api.ContainerPause(t.Context(), box.Ref.ContainerID))
	state, err := l.State(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Equal(t, activities.SandboxPaused, state)
	taken := snapshot(t, l.Backend, box.Ref)
	require.NotEmpty(t, taken.ImageID)
	revived, err := l.ReviveSandbox(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Equal(t, box, revived)
	require.Equal(t, "awake\n", sh(t, api, "echo awake"))
}

func TestSnapshotsSideBySide(t *testing.T) {
	l := newLab(t)
	box, api := create(t, l.Backend, spec())
	_, err := api.Run(t.Context(), guest.RunRequest{CallID: "background", Command: "while true; do date > file; done", MaxOutput: 100})
	require.NoError(t, err)
	call := session.NewCallID()
	same := activities.SnapshotSpec{Sandbox: box.Ref, SnapshotID: session.MakeSnapshotID(box.Ref.SessionID, call), CallID: call, Owner: "owner"}
	var wg sync.WaitGroup
	taken := make([]activities.SnapshotImage, 3)
	errs := make([]error, len(taken))
	for i := range taken {
		wg.Go(func() { taken[i], errs[i] = l.TakeSnapshot(t.Context(), same) })
		wg.Go(func() { snapshot(t, l.Backend, box.Ref) })
		wg.Go(func() {
			// Whoever finds it paused meanwhile neither wakes it nor takes it for suspended.
			state, err := l.State(t.Context(), box.Ref)
			require.NoError(t, err)
			require.Equal(t, activities.SandboxRunning, state)
			_, err = l.ReviveSandbox(t.Context(), box.Ref)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	for i := range taken {
		require.NoError(t, errs[i])
		require.Equal(t, taken[0], taken[i])
	}
	sh(t, api, "test -e file")
	require.Len(t, images(t, l, session.LabelKind+"=image"), 4)
}

func TestForeignContainer(t *testing.T) {
	l := newLab(t)
	s := spec()
	name := "mcp-sandbox-" + strings.TrimPrefix(s.SessionID, "s_")[:10] + "-1"
	foreign, err := l.api.ContainerCreate(t.Context(), &container.Config{Image: busybox}, nil, nil, nil, name)
	require.NoError(t, err)
	_, createErr := l.CreateSandbox(t.Context(), s)
	removeErr := l.RemoveSession(t.Context(), s.SessionID)
	require.NoError(t, l.api.ContainerRemove(t.Context(), foreign.ID, container.RemoveOptions{}), "it is untouched")
	require.ErrorContains(t, createErr, name)
	require.NoError(t, removeErr)
	require.NotContains(t, kinds(inventory(t, l.Backend)), activities.KindVolume)
}

func TestHalfMadeIsFinished(t *testing.T) {
	l := newLab(t)
	s := spec()
	box, _ := create(t, l.Backend, s)
	// As a process leaves it that dies between creation and start.
	require.NoError(t, l.api.ContainerKill(t.Context(), box.Ref.ContainerID, "KILL"))
	again, api := create(t, l.reopen(t), s)
	require.Equal(t, box, again)
	sh(t, api, "true")
}

func TestCreationGivenUp(t *testing.T) {
	l := newLab(t)
	create(t, l.Backend, spec()) // with it, the derived image
	before := inventory(t, l.Backend)
	for _, after := range []time.Duration{0, 5, 20, 40, 80, 120, 160, 200, 250} {
		ctx, cancel := context.WithTimeout(t.Context(), after*time.Millisecond)
		s := spec()
		_, err := l.CreateSandbox(ctx, s)
		cancel()
		if err == nil { // it was faster
			require.NoError(t, l.RemoveSession(t.Context(), s.SessionID))
		}
		require.ElementsMatch(t, before, inventory(t, l.Backend), "given up after %d ms: %v", after, err)
	}
}

func TestGuestThatCannotStart(t *testing.T) {
	broken := func(o *docker.Options) {
		o.Guest = func(string) ([]byte, error) { return []byte("#!/bin/sh\nexit 3\n"), nil }
	}
	l := newLab(t, broken)
	_, err := l.CreateSandbox(t.Context(), spec())
	require.ErrorContains(t, err, "exit code 3")
	require.NotErrorIs(t, err, activities.ErrSandboxGone)
	require.Equal(t, map[activities.ResourceKind]int{activities.KindImage: 1}, kinds(inventory(t, l.Backend)), "the derived image alone")
}

func TestIdleStreamIsClosed(t *testing.T) {
	l := newLab(t, func(o *docker.Options) { o.IdleStream = 300 * time.Millisecond })
	box, api := create(t, l.Backend, spec())
	sh(t, api, "true")
	streams := func() int {
		top, err := l.api.ContainerTop(t.Context(), box.Ref.ContainerID, nil)
		require.NoError(t, err)
		n := 0
		for _, p := range top.Processes {
			if strings.Contains(strings.Join(p, " "), "dial-stdio") {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return streams() == 0 }, 10*time.Second, 50*time.Millisecond)
	api, err := l.Guest(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Equal(t, "back\n", sh(t, api, "echo back"))
}

func TestUnreachableEngine(t *testing.T) {
	_, err := docker.New(t.Context(), docker.Options{
		Host: docker.Host{Address: "tcp://127.0.0.1:9", Source: "test"}, InstallationID: "i", HostID: "h",
		Guest: func(string) ([]byte, error) { return nil, nil },
	})
	require.ErrorContains(t, err, "does not answer")
}

func kinds(all []activities.Resource) map[activities.ResourceKind]int {
	count := map[activities.ResourceKind]int{}
	for _, r := range all {
		count[r.Kind]++
	}
	return count
}
