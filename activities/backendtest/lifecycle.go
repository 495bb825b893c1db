package backendtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// cleanup is a context for t.Cleanup, where t.Context has ended.
func cleanup(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (c testCase) host() {
	t, h := c.t, c.h
	require.NoError(t, h.Backend.Check(t.Context()))
	require.NotEmpty(t, h.Backend.HostID())
	require.Equal(t, h.Backend.HostID(), h.Reopen(t).HostID())
}

func (c testCase) createIdempotent() {
	t, h := c.t, c.h
	spec := newSession(t, h)
	var wg sync.WaitGroup
	boxes := make([]activities.Sandbox, 4)
	errs := make([]error, len(boxes))
	for i := range boxes {
		wg.Go(func() { boxes[i], errs[i] = h.Backend.CreateSandbox(t.Context(), spec) })
	}
	wg.Wait()
	for i := range boxes {
		require.NoError(t, errs[i])
		require.Equal(t, boxes[0], boxes[i])
	}
	require.Equal(t, spec.SessionID, boxes[0].Ref.SessionID)
	require.Equal(t, 1, boxes[0].Ref.Incarnation)
	require.NotEmpty(t, boxes[0].Ref.ContainerID)
	require.NotEmpty(t, boxes[0].Image)

	_, api := create(t, h, spec)
	require.Equal(t, boxes[0].WorkingDir+"\n", sh(t, api, "pwd; touch here"))
	again, api := create(t, h, spec)
	require.Equal(t, boxes[0], again)
	require.Equal(t, "here\n", sh(t, api, "ls"))
}

func (c testCase) supersede() {
	t, h := c.t, c.h
	spec := newSession(t, h)
	first, old := create(t, h, spec)
	sh(t, old, "true")
	late := spec
	spec.Incarnation = 2
	second, api := create(t, h, spec)
	require.NotEqual(t, first.Ref.ContainerID, second.Ref.ContainerID)
	sh(t, api, "true")

	_, err := old.Run(t.Context(), request(session.NewCallID(), "true", 1000))
	require.Error(t, err, "the old guest is gone")
	mixed := second.Ref
	mixed.Incarnation = 1
	if refused, err := h.Backend.Guest(t.Context(), mixed); err == nil {
		_, err = refused.Usage(t.Context())
		require.Error(t, err, "the old fence is refused")
	}
	_, err = h.Backend.CreateSandbox(t.Context(), late)
	require.ErrorIs(t, err, activities.ErrSuperseded)
	_, err = h.Backend.ReviveSandbox(t.Context(), first.Ref)
	require.ErrorIs(t, err, activities.ErrSandboxGone)
	state, err := h.Backend.State(t.Context(), first.Ref)
	require.NoError(t, err)
	require.Equal(t, activities.SandboxMissing, state)
	sh(t, api, "true")
}

func (c testCase) unknownImage() { // D9
	t, h := c.t, c.h
	spec := newSession(t, h)
	good := spec.Image
	spec.Image = h.UnknownImage
	_, err := h.Backend.CreateSandbox(t.Context(), spec)
	require.Equal(t, session.NotFound, session.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, h.UnknownImage)
	require.Empty(t, of(t, h, ofSession(spec.SessionID)))

	spec.Image = good
	_, api := create(t, h, spec)
	sh(t, api, "true")

	spec = newSession(t, h)
	spec.SnapshotID = session.MakeSnapshotID(spec.SessionID, "none")
	_, err = h.Backend.CreateSandbox(t.Context(), spec)
	require.Equal(t, session.NotFound, session.CodeOf(err), "%v", err)
	require.Empty(t, of(t, h, ofSession(spec.SessionID)))
}

func (c testCase) unknownImageKeeps() {
	t, h := c.t, c.h
	spec := newSession(t, h)
	box, api := create(t, h, spec)
	spec.Incarnation, spec.Image = 2, h.UnknownImage
	_, err := h.Backend.CreateSandbox(t.Context(), spec)
	require.Equal(t, session.NotFound, session.CodeOf(err), "%v", err)
	state, err := h.Backend.State(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Equal(t, activities.SandboxRunning, state)
	sh(t, api, "true")
}

func (c testCase) revive() {
	t, h := c.t, c.h
	box, api := create(t, h, newSession(t, h))
	sh(t, api, "echo kept > file")
	running, err := api.Run(t.Context(), request("background", "sleep 1000", 0))
	require.NoError(t, err)
	require.Equal(t, guest.StatusRunning, running.Status)

	again, err := h.Backend.ReviveSandbox(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Equal(t, box, again, "one that runs is left alone")
	chunk, err := api.Output(t.Context(), guest.OutputRequest{CallID: "background", Stream: guest.Stdout})
	require.NoError(t, err)
	require.Equal(t, guest.StatusRunning, chunk.Command.Status)

	h.Stop(t, box.Ref)
	state, err := h.Backend.State(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Equal(t, activities.SandboxStopped, state)
	_, err = api.Usage(t.Context())
	require.ErrorIs(t, err, guest.ErrUnreachable)

	again, err = h.Backend.ReviveSandbox(t.Context(), box.Ref)
	require.NoError(t, err)
	require.Equal(t, box, again)
	api, err = h.Backend.Guest(t.Context(), again.Ref)
	require.NoError(t, err)
	require.Equal(t, "kept\n", sh(t, api, "cat file"))
	chunk, err = api.Output(t.Context(), guest.OutputRequest{CallID: "background", Stream: guest.Stdout})
	require.NoError(t, err)
	require.Equal(t, guest.StatusLost, chunk.Command.Status)
}

func (c testCase) missing() {
	t, h := c.t, c.h
	spec := newSession(t, h)
	missing := func(ref activities.SandboxRef) {
		state, err := h.Backend.State(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, activities.SandboxMissing, state)
		_, err = h.Backend.ReviveSandbox(t.Context(), ref)
		require.ErrorIs(t, err, activities.ErrSandboxGone)
	}
	missing(activities.SandboxRef{SessionID: spec.SessionID, Incarnation: 1})
	missing(activities.SandboxRef{SessionID: spec.SessionID, Incarnation: 1, ContainerID: "0123456789ab"})
	box, _ := create(t, h, spec)
	other := newSession(t, h).SessionID
	missing(activities.SandboxRef{SessionID: other, Incarnation: 1, ContainerID: box.Ref.ContainerID})
	missing(activities.SandboxRef{SessionID: spec.SessionID, Incarnation: 2, ContainerID: box.Ref.ContainerID})
	require.NoError(t, h.Backend.RemoveSession(t.Context(), spec.SessionID))
	missing(box.Ref)

	spec.Incarnation = 2
	_, err := h.Backend.CreateSandbox(t.Context(), spec)
	require.ErrorIs(t, err, activities.ErrSandboxGone, "without its journal a session is lost")
	require.Empty(t, of(t, h, ofSession(spec.SessionID)))
}

func (c testCase) removeSession() { // D2
	t, h := c.t, c.h
	spec := newSession(t, h)
	box, api := create(t, h, spec)
	_, err := api.Run(t.Context(), request("background", "trap '' TERM; sleep 1000", 0))
	require.NoError(t, err)
	kept, other := create(t, h, newSession(t, h))

	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() { errs[i] = h.Backend.RemoveSession(t.Context(), spec.SessionID) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Empty(t, of(t, h, ofSession(spec.SessionID)))
	_, err = api.Usage(t.Context())
	require.ErrorIs(t, err, guest.ErrUnreachable)
	_, err = h.Backend.TakeSnapshot(t.Context(), activities.SnapshotSpec{Sandbox: box.Ref, SnapshotID: session.MakeSnapshotID(spec.SessionID, "x")})
	require.ErrorIs(t, err, activities.ErrSandboxGone)
	require.NoError(t, h.Backend.RemoveSession(t.Context(), spec.SessionID), "nothing there is no error")

	state, err := h.Backend.State(t.Context(), kept.Ref)
	require.NoError(t, err)
	require.Equal(t, activities.SandboxRunning, state)
	sh(t, other, "true")
}
