package backendtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
)

func (c testCase) inventory() {
	t, h := c.t, c.h
	spec := newSession(t, h)
	box, _ := create(t, h, spec)
	kinds := map[activities.ResourceKind]activities.Resource{}
	for _, r := range of(t, h, ofSession(spec.SessionID)) {
		kinds[r.Kind] = r
		require.WithinDuration(t, time.Now(), r.Created, 5*time.Minute)
	}
	require.Equal(t, box.Ref.ContainerID, kinds[activities.KindContainer].ID)
	require.Equal(t, 1, kinds[activities.KindContainer].Incarnation)
	require.Contains(t, kinds, activities.KindVolume)

	snap := snapshot(t, h, box.Ref)
	found := of(t, h, ofSnapshot(snap.SnapshotID))
	require.Len(t, found, 1)
	require.Equal(t, activities.KindImage, found[0].Kind)
	require.Equal(t, spec.SessionID, found[0].SessionID)
}

func (c testCase) limits() {
	t, h := c.t, c.h
	spec := newSession(t, h)
	spec.MemoryMB = 96
	_, api := create(t, h, spec)
	usage, err := api.Usage(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 96<<20, usage.MemoryLimitBytes)
	require.Positive(t, usage.PIDsLimit)
	require.Positive(t, usage.PIDs)
}

func (c testCase) reopen() {
	t, h := c.t, c.h
	spec := newSession(t, h)
	box, api := create(t, h, spec)
	sh(t, api, "echo mine > file")

	other := h.Reopen(t)
	found, err := other.CreateSandbox(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, box, found)
	api, err = other.Guest(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Equal(t, "mine\n", sh(t, api, "cat file"))
	require.NoError(t, other.RemoveSession(t.Context(), spec.SessionID))
	state, err := h.Backend.State(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Equal(t, activities.SandboxMissing, state)
}
