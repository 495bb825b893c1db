package backendtest

import (
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func (c testCase) snapshotIdempotent() {
	t, h := c.t, c.h
	box, api := create(t, h, newSession(t, h))
	_, err := api.Run(t.Context(), request("background", "sleep 1000", 0))
	require.NoError(t, err)
	spec := snapshot(t, h, box.Ref)
	first, err := h.Backend.FindSnapshot(t.Context(), spec.SnapshotID)
	require.NoError(t, err)
	require.Equal(t, box.Image, first.BaseImage)
	require.Positive(t, first.SizeBytes)
	require.NotEmpty(t, first.ImageID)
	require.WithinDuration(t, time.Now(), first.CreatedAt, 5*time.Minute)
	sh(t, api, "touch later")
	again, err := h.Backend.TakeSnapshot(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, first, again)

	chunk, err := api.Output(t.Context(), guest.OutputRequest{CallID: "background", Stream: guest.Stdout})
	require.NoError(t, err)
	require.Equal(t, guest.StatusRunning, chunk.Command.Status, "a snapshot ends no command")
	state, err := h.Backend.State(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Equal(t, activities.SandboxRunning, state)

	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _ = h.Backend.RemoveSnapshot(t.Context(), spec.SnapshotID) })
	}
	wg.Wait()
	require.NoError(t, h.Backend.RemoveSnapshot(t.Context(), spec.SnapshotID))
	_, err = h.Backend.FindSnapshot(t.Context(), spec.SnapshotID)
	require.Equal(t, session.NotFound, session.CodeOf(err))
	require.Empty(t, of(t, h, ofSnapshot(spec.SnapshotID)))
}

func (c testCase) snapshotRemovedInUse() {
	t, h := c.t, c.h
	box, api := create(t, h, newSession(t, h))
	sh(t, api, "echo kept > file")
	snap := snapshot(t, h, box.Ref)
	spec := newSession(t, h)
	spec.SnapshotID = snap.SnapshotID
	_, forked := create(t, h, spec)

	require.NoError(t, h.Backend.RemoveSnapshot(t.Context(), snap.SnapshotID))
	_, err := h.Backend.FindSnapshot(t.Context(), snap.SnapshotID)
	require.Equal(t, session.NotFound, session.CodeOf(err))
	other := newSession(t, h)
	other.SnapshotID = snap.SnapshotID
	_, err = h.Backend.CreateSandbox(t.Context(), other)
	require.Equal(t, session.NotFound, session.CodeOf(err))
	require.Equal(t, "kept\n", sh(t, forked, "cat file"), "a sandbox made of it goes on")

	require.NoError(t, h.Backend.RemoveSession(t.Context(), spec.SessionID))
	require.Empty(t, of(t, h, ofSnapshot(snap.SnapshotID)))
}
