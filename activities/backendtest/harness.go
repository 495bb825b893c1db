package backendtest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Harness is a backend under test, in an installation of its own, and the ways
// to do it harm. Its maker cleans up with t.Cleanup, also after a failure.
type Harness struct {
	Backend activities.Backend
	// UnknownImage is a reference that no sandbox can be made of.
	UnknownImage string
	// Stop ends a sandbox's processes at once, behind the backend's back.
	Stop func(t *testing.T, ref activities.SandboxRef)
	// Reopen gives a second backend of the same installation, as another
	// process would have it. Its maker closes it.
	Reopen func(t *testing.T) activities.Backend
}

// Run runs the suite. It calls open once: the cases share a backend, as the
// sessions of a host do, and each uses sessions of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	h := open(t)
	for _, c := range []struct {
		name string
		test func(testCase)
	}{
		{"host", testCase.host},
		{"create is idempotent", testCase.createIdempotent},
		{"a higher incarnation supersedes", testCase.supersede},
		{"unknown image", testCase.unknownImage},
		{"unknown image keeps the earlier incarnation", testCase.unknownImageKeeps},
		{"revive", testCase.revive},
		{"missing", testCase.missing},
		{"remove session", testCase.removeSession},
		{"inventory", testCase.inventory},
		{"remove resource", testCase.removeResource},
		{"limits", testCase.limits},
		{"another process", testCase.reopen},
		{"run once", testCase.runOnce},
		{"files", testCase.files},
		{"journal survives a restore", testCase.journalSurvives},
		{"a fork knows no calls", testCase.fork},
		{"restore brings the files back", testCase.restore},
		{"snapshot is idempotent", testCase.snapshotIdempotent},
		{"snapshot removed in use", testCase.snapshotRemovedInUse},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(testCase{t, h}) })
	}
}

// testCase is one test of the suite.
type testCase struct {
	t *testing.T
	h Harness
}

const owner = "someone"

// newSession makes a spec for a session of its own, removed after the test.
func newSession(t *testing.T, h Harness) activities.SandboxSpec {
	t.Helper()
	spec := activities.SandboxSpec{
		SessionID: session.MakeSessionID([]byte(rand.Text()), owner, "start"), Incarnation: 1, Owner: owner, CallID: session.NewCallID(),
		Network: session.NetworkNone, MemoryMB: 128, CPUs: 1, ExpiresAt: time.Now().Add(time.Hour),
	}
	t.Cleanup(func() { require.NoError(t, h.Backend.RemoveSession(cleanup(t), spec.SessionID)) })
	return spec
}

func create(t *testing.T, h Harness, spec activities.SandboxSpec) (activities.Sandbox, guest.API) {
	t.Helper()
	box, err := h.Backend.CreateSandbox(t.Context(), spec)
	require.NoError(t, err)
	api, err := h.Backend.Guest(t.Context(), box.Ref)
	require.NoError(t, err)
	return box, api
}

// snapshot takes one that is removed after the test.
func snapshot(t *testing.T, h Harness, ref activities.SandboxRef) activities.SnapshotSpec {
	t.Helper()
	call := session.NewCallID()
	spec := activities.SnapshotSpec{Sandbox: ref, SnapshotID: session.MakeSnapshotID(ref.SessionID, call), CallID: call, Owner: owner}
	t.Cleanup(func() { require.NoError(t, h.Backend.RemoveSnapshot(cleanup(t), spec.SnapshotID)) })
	taken, err := h.Backend.TakeSnapshot(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, spec.SnapshotID, taken.SnapshotID)
	return spec
}

// run runs a command to its end and gives what it wrote to stdout.
func run(t *testing.T, api guest.API, callID, command string) string {
	t.Helper()
	c, err := api.Run(t.Context(), request(callID, command, 20_000))
	require.NoError(t, err)
	require.Equal(t, guest.StatusExited, c.Status)
	require.NotNil(t, c.ExitCode)
	require.Zero(t, *c.ExitCode, "%s: %s%s", command, c.Stdout.Head, c.Stderr.Head)
	return string(c.Stdout.Head) + string(c.Stdout.Tail)
}

func sh(t *testing.T, api guest.API, command string) string {
	t.Helper()
	return run(t, api, session.NewCallID(), command)
}

func request(callID, command string, waitMS int64) guest.RunRequest {
	return guest.RunRequest{CallID: callID, Command: command, WaitMS: waitMS, MaxOutput: 32 << 10, ArgsDigest: command}
}

// of lists what the inventory has of a session or snapshot.
func of(t *testing.T, h Harness, match func(activities.Resource) bool) []activities.Resource {
	t.Helper()
	all, err := h.Backend.Inventory(t.Context())
	require.NoError(t, err)
	var found []activities.Resource
	for _, r := range all {
		if match(r) {
			found = append(found, r)
		}
	}
	return found
}

func ofSession(id string) func(activities.Resource) bool {
	return func(r activities.Resource) bool { return r.SessionID == id && r.SnapshotID == "" }
}

func ofSnapshot(id string) func(activities.Resource) bool {
	return func(r activities.Resource) bool { return r.SnapshotID == id }
}
