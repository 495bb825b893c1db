package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

type (
	nearRun    = activities.NearTask[session.RunCommandIn]
	nearAnswer = activities.NearAnswer[session.RunCommandOut]
)

const nearRunCommand = activities.NearPrefix + activities.RunCommand

var withNear = workflows.Options{NearWait: 100 * time.Millisecond}

func TestNear(t *testing.T) {
	done := nearAnswer{Done: true, Out: session.RunCommandOut{CommandID: "near"}}
	notFound := session.EncodeError(session.Errorf(session.NotFound, "no such directory"))
	late := temporal.NewTimeoutError(0, nil)
	for name, c := range map[string]struct {
		answer nearAnswer
		err    error
		far    int // calls that went to the host's queue
		code   session.Code
	}{
		"done":                {done, nil, 0, ""},
		"not here":            {nearAnswer{}, nil, 1, ""},
		"the guest's refusal": {nearAnswer{}, notFound, 0, session.NotFound},
		"no answer":           {nearAnswer{}, late, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, withNear)
			var asked nearRun
			on(h, nearRunCommand, func(n nearRun) (nearAnswer, error) {
				asked = n
				return c.answer, c.err
			})
			a := call(h, time.Second, session.RunCommand, "c_1", echo)
			h.end(time.Minute)
			h.run()
			if c.code == "" {
				require.NoError(t, a.err)
			} else {
				require.Equal(t, c.code, a.code())
			}
			require.Equal(t, c.far, h.count(activities.RunCommand))
			require.Equal(t, "h1", asked.HostID)
			require.Equal(t, int64(100), asked.Task.NearMS)
			require.Equal(t, "c_1", asked.Task.CallID)
		})
	}
}

// A wait ends while its caller still listens, also when the call was held up
// before it came to the guest.
func TestWaitEndsBeforeItsCallersPatience(t *testing.T) {
	h := newHarness(t, workflows.Options{})
	var left []int64
	on(h, activities.RunCommand, func(task runTask) (session.RunCommandOut, error) {
		left = append(left, task.LeftMS)
		return session.RunCommandOut{Status: "running"}, nil
	})
	patient := call(h, time.Second, session.RunCommand, "c_1", echo)
	hurried := callWithin(h, 2*time.Second, 20*time.Second, session.RunCommand, "c_2", echo)
	h.end(time.Minute)
	h.run()
	require.NoError(t, patient.err)
	require.NoError(t, hurried.err)
	require.Equal(t, []int64{0, 20000}, left)
}

// A guest that does not answer costs one near call its time, not each.
func TestNearIsSparedWhileTheGuestIsSick(t *testing.T) {
	h := newHarness(t, withNear)
	on(h, nearRunCommand, gives[nearRun](nearAnswer{}, temporal.NewTimeoutError(0, nil)))
	on(h, activities.RunCommand, gives[runTask](session.RunCommandOut{}, session.EncodeError(session.Errorf(session.ResourceExhausted, "no processes")))).Twice()
	for i, id := range []string{"c_1", "c_2", "c_3", "c_4"} {
		call(h, time.Duration(i+1)*10*time.Second, session.RunCommand, id, echo)
	}
	h.end(time.Minute)
	h.run()
	require.Equal(t, 4, h.count(activities.RunCommand))
	require.Equal(t, 2, h.count(nearRunCommand), "again once the guest has answered")
}
