package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

var (
	copyInto = session.CopyInIn{Path: "src", Manifest: strings.Repeat("a", 64), Files: 2000, Bytes: 100_000_000}
	copyFrom = session.CopyOutIn{Path: "src"}
)

func TestCopies(t *testing.T) {
	h := newHarness(t, workflows.Options{NearWait: time.Second}) // never near: they take their time
	on(h, activities.CopyIn, func(c activities.Task[session.CopyInIn]) (session.CopyInOut, error) {
		require.Equal(t, "c_in", c.CallID)
		require.Equal(t, copyInto, c.In)
		return session.CopyInOut{Path: "/home/sandbox/src", CopyCounts: session.CopyCounts{Files: 2000}}, nil
	})
	on(h, activities.CopyOut, gives[activities.Task[session.CopyOutIn]](session.CopyOutOut{Manifest: copyInto.Manifest}, nil))
	a := call(h, time.Second, session.CopyIn, "c_in", copyInto)
	b := call(h, 2*time.Second, session.CopyOut, "c_out", copyFrom)
	bad := call(h, 2*time.Second, session.CopyIn, "c_bad", session.CopyInIn{Manifest: "../journal"})
	theirs := callAs(h, 2*time.Second, session.CopyOut, "c_theirs", "bob", copyFrom)
	h.run()
	require.NoError(t, a.err)
	require.Equal(t, 2000, a.out.Files)
	require.NoError(t, b.err)
	require.Equal(t, copyInto.Manifest, b.out.Manifest)
	require.Equal(t, session.InvalidArgument, bad.code())
	require.Equal(t, session.NotFound, theirs.code())
}

// The time that a copy works does not count against the bound within which a
// call must reach its sandbox: a copy that is cut off late is taken up again.
func TestLongCopyIsTakenUp(t *testing.T) {
	h := newHarness(t, workflows.Options{CallBound: time.Minute})
	on(h, activities.CopyIn, gives[activities.Task[session.CopyInIn]](session.CopyInOut{}, timeout())).After(50 * time.Minute).Once()
	on(h, activities.CopyIn, gives[activities.Task[session.CopyInIn]](session.CopyInOut{Path: "/x"}, nil))
	h.input.Start.IdleTimeoutSeconds = 7200
	a := call(h, time.Second, session.CopyIn, "c_in", copyInto)
	h.run()
	require.NoError(t, a.err)
	require.Equal(t, "/x", a.out.Path)
	require.Zero(t, h.count(activities.RefuseCall))
}
