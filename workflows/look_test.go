package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

// A session whose host saw its container die looks, and has it back before a call
// asks for it. It does not believe what concerns another incarnation, and leaves a
// container that dies again and again to the next call.
func TestLook(t *testing.T) {
	type look struct {
		at          time.Duration
		incarnation int
	}
	for name, row := range map[string]struct {
		looks          []look
		err            error // of the sandbox
		asked, revived int
	}{
		"died":             {[]look{{time.Second, 1}}, errGone, 1, 1},
		"runs":             {[]look{{time.Second, 1}}, nil, 1, 0},
		"another":          {[]look{{time.Second, 2}}, errGone, 0, 0},
		"told twice":       {[]look{{time.Second, 1}, {time.Second, 1}}, errGone, 1, 1},
		"dies soon again":  {[]look{{time.Second, 1}, {30 * time.Second, 1}}, errGone, 1, 1},
		"dies later again": {[]look{{time.Second, 1}, {2 * time.Minute, 1}}, errGone, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, workflows.Options{})
			on(h, activities.DescribeUsage, gives[activities.SandboxRef](activities.UsageReport{}, row.err))
			on(h, activities.ReviveSandbox, gives[activities.SandboxRef](sandbox(1), nil))
			for _, l := range row.looks {
				h.at(l.at, func() { h.SignalWorkflow(session.SignalLook, session.Look{Incarnation: l.incarnation}) })
			}
			h.end(5 * time.Minute)
			h.run()
			require.Equal(t, row.asked, h.count(activities.DescribeUsage))
			require.Equal(t, row.revived, h.count(activities.ReviveSandbox))
		})
	}
}

// What was not seen is looked at again by the next run, or when it is told again.
func TestLookIsCarried(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.DescribeUsage, gives[activities.SandboxRef](activities.UsageReport{}, nil)).After(5 * time.Second)
	h.at(time.Second, func() { h.SignalWorkflow(session.SignalLook, session.Look{Incarnation: 1}) })
	h.at(2*time.Second, h.grow)
	h.run()
	next := h.next()
	on(next, activities.DescribeUsage, gives[activities.SandboxRef](activities.UsageReport{}, errGone))
	on(next, activities.ReviveSandbox, gives[activities.SandboxRef](sandbox(1), nil))
	next.end(time.Minute)
	next.run()
	require.Equal(t, 1, next.count(activities.ReviveSandbox))
}

// The end of a session does not wait for a look at a host that gives no answer.
func TestEndDuringALook(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	on(h, activities.DescribeUsage, gives[activities.SandboxRef](activities.UsageReport{}, nil)).After(20 * time.Second)
	h.at(time.Second, func() { h.SignalWorkflow(session.SignalLook, session.Look{Incarnation: 1}) })
	h.end(2 * time.Second)
	h.run()
	require.Less(t, h.Now().Sub(h.began), 10*time.Second)
}
