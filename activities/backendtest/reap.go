package backendtest

import (
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// An object of the inventory is removed alone, and only as what it is.
func (c testCase) removeResource() {
	t, h := c.t, c.h
	spec := newSession(t, h)
	box, _ := create(t, h, spec)
	snap := snapshot(t, h, box.Ref)
	found := map[activities.Role]activities.Resource{}
	for _, r := range of(t, h, func(r activities.Resource) bool { return r.SessionID == spec.SessionID }) {
		found[r.Role] = r
	}
	require.Len(t, found, 3)
	sandbox, image := found[activities.RoleSandbox], found[activities.RoleSnapshot]
	require.True(t, sandbox.Running)
	require.Equal(t, activities.KindVolume, found[activities.RoleJournal].Kind)
	require.Equal(t, snap.SnapshotID, image.SnapshotID)
	require.False(t, image.InUse)

	for name, change := range map[string]func(*activities.Resource){
		"no role":             func(r *activities.Resource) { r.Role = "" },
		"another role":        func(r *activities.Resource) { r.Role = activities.RoleVolume },
		"another incarnation": func(r *activities.Resource) { r.Incarnation++ },
		"another session":     func(r *activities.Resource) { r.SessionID = session.MakeSessionID(nil, owner, "none") },
		"another object":      func(r *activities.Resource) { r.ID = "0123456789ab" },
	} {
		other := sandbox
		change(&other)
		require.NoError(t, h.Backend.RemoveResource(t.Context(), other), name)
	}
	require.NoError(t, h.Backend.RemoveResource(t.Context(), found[activities.RoleJournal]), "it is in use")
	require.Len(t, of(t, h, ofSession(spec.SessionID)), 2)

	fork := newSession(t, h)
	fork.SnapshotID = snap.SnapshotID
	create(t, h, fork)
	require.True(t, of(t, h, ofSnapshot(snap.SnapshotID))[0].InUse)
	require.NoError(t, h.Backend.RemoveResource(t.Context(), image), "it is in use")
	require.Len(t, of(t, h, ofSnapshot(snap.SnapshotID)), 1)
	require.NoError(t, h.Backend.RemoveSession(t.Context(), fork.SessionID))

	for _, r := range []activities.Resource{sandbox, found[activities.RoleJournal], image} {
		for range 2 { // nothing there is no error
			require.NoError(t, h.Backend.RemoveResource(t.Context(), r))
		}
	}
	require.Empty(t, of(t, h, func(r activities.Resource) bool { return r.SessionID == spec.SessionID }))
}
