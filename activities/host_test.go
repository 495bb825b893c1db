package activities_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

var errFault = errors.New("a fault that passes")

// What the guest or the engine says decides what the workflow does next.
func TestErrorsOfCalls(t *testing.T) {
	running := stubBackend{state: activities.SandboxRunning}
	for name, row := range map[string]struct {
		err     error // of the guest
		backend stubBackend
		failure string // "" is retried
	}{
		"the guest says no":        {guest.Errorf(guest.CodeNotFound, "no such file"), running, string(session.NotFound)},
		"bad arguments":            {guest.Errorf(guest.CodeInvalid, "x"), running, string(session.InvalidArgument)},
		"permission":               {guest.Errorf(guest.CodePermission, "x"), running, string(session.PermissionDenied)},
		"a wrong state":            {guest.Errorf(guest.CodePrecondition, "x"), running, string(session.FailedPrecondition)},
		"a conflict":               {guest.Errorf(guest.CodeConflict, "x"), running, string(session.FailedPrecondition)},
		"too large":                {guest.Errorf(guest.CodeTooLarge, "x"), running, string(session.InvalidArgument)},
		"a full disk":              {guest.Errorf(guest.CodeExhausted, "x"), running, string(session.ResourceExhausted)},
		"begun, then died":         {guest.Errorf(guest.CodeLost, "x"), running, string(session.Lost)},
		"refused before":           {guest.Errorf(guest.CodeRefused, "x"), running, string(session.Unavailable)},
		"another incarnation":      {guest.Errorf(guest.CodeFenced, "x"), running, session.FailureSandboxGone},
		"a fault of the guest":     {guest.Errorf(guest.CodeInternal, "x"), running, ""},
		"an unknown code":          {guest.Errorf("new", "x"), running, ""},
		"no answer, running":       {guest.ErrUnreachable, running, ""},
		"no answer, paused":        {guest.ErrUnreachable, stubBackend{state: activities.SandboxPaused}, ""},
		"no answer, stopped":       {guest.ErrUnreachable, stubBackend{state: activities.SandboxStopped}, session.FailureSandboxGone},
		"no answer, missing":       {guest.ErrUnreachable, stubBackend{state: activities.SandboxMissing}, session.FailureSandboxGone},
		"no answer, engine silent": {guest.ErrUnreachable, stubBackend{state: activities.SandboxMissing, stateErr: errFault}, ""},
		"gone":                     {nil, stubBackend{guestErr: activities.ErrSandboxGone}, session.FailureSandboxGone},
		"superseded":               {nil, stubBackend{guestErr: activities.ErrSuperseded}, session.FailureSandboxGone},
		"the engine is away":       {nil, stubBackend{guestErr: errFault, stateErr: errFault}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := row.backend
			b.guest = &stubGuest{err: row.err}
			_, err := perform[session.RunCommandOut](t, &b, activities.RunCommand, task(session.RunCommandIn{Command: "x"}))
			require.Error(t, err)
			if row.failure == "" {
				requireRetried(t, err)
				return
			}
			requireFinal(t, err, row.failure)
		})
	}
}

// An engine that refuses to run a sandbox each time is believed in the end; one
// that does not answer is waited for.
func TestRefusalOfTheEngineIsFinalInTheEnd(t *testing.T) {
	for name, activity := range map[string]string{"create": activities.CreateSandbox, "revive": activities.ReviveSandbox} {
		t.Run(name, func(t *testing.T) {
			for err, final := range map[error]bool{errFault: false, fmt.Errorf("start: %w: no such runtime", activities.ErrRefused): true} {
				var suite testsuite.WorkflowTestSuite
				env := suite.NewTestWorkflowEnvironment()
				activities.NewHost(&stubBackend{err: err}, nil).Register(env)
				env.ExecuteWorkflow(func(ctx workflow.Context) error {
					ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
						StartToCloseTimeout: time.Minute, ScheduleToCloseTimeout: 2 * time.Minute,
						RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumInterval: 2 * time.Second, MaximumAttempts: 25},
					})
					var arg any = activities.SandboxSpec{}
					if activity == activities.ReviveSandbox {
						arg = activities.SandboxRef{}
					}
					return workflow.ExecuteActivity(ctx, activity, arg).Get(ctx, nil)
				})
				if final {
					requireFinal(t, env.GetWorkflowError(), string(session.Unavailable))
					require.ErrorContains(t, env.GetWorkflowError(), "no such runtime", "the engine's own words")
				} else {
					requireRetried(t, env.GetWorkflowError())
				}
			}
		})
	}
}

// A fault that the guest recorded as the outcome is not asked for for ever.
func TestFaultOfTheGuestIsFinalInTheEnd(t *testing.T) {
	g := &stubGuest{err: guest.Errorf(guest.CodeInternal, "x")}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment() // the environment of activities knows no retries
	activities.NewHost(&stubBackend{state: activities.SandboxRunning, guest: g}, nil).Register(env)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, activities.RunCommand, task(session.RunCommandIn{Command: "x"})).Get(ctx, nil)
	})
	requireFinal(t, env.GetWorkflowError(), string(session.Internal))
	require.Len(t, g.runs, 5)
}

func TestErrorsOfTheBackend(t *testing.T) {
	for name, row := range map[string]struct {
		err     error
		failure string
	}{
		"for the agent": {session.Errorf(session.NotFound, "no image"), string(session.NotFound)},
		"passing":       {errFault, ""},
		"unavailable":   {session.Errorf(session.Unavailable, "x"), ""},
		"gone":          {activities.ErrSandboxGone, session.FailureSandboxGone},
		"superseded":    {activities.ErrSuperseded, session.FailureSandboxGone},
	} {
		for verb, in := range map[string]any{
			activities.CreateSandbox: activities.SandboxSpec{}, activities.ReviveSandbox: activities.SandboxRef{},
			activities.TakeSnapshot: activities.SnapshotSpec{},
		} {
			t.Run(verb+" "+name, func(t *testing.T) {
				_, err := perform[any](t, &stubBackend{err: row.err}, verb, in)
				if row.failure == "" {
					requireRetried(t, err)
					return
				}
				requireFinal(t, err, row.failure)
			})
		}
	}
}

// The next worker takes over at once, whatever the call waits for.
func TestWorkerStops(t *testing.T) {
	_, err := perform[any](t, &stubBackend{guest: &stubGuest{wait: true}}, activities.RunCommand,
		task(session.RunCommandIn{Command: "sleep 60"}), stopped())
	requireRetried(t, err)
	require.ErrorContains(t, err, "worker is stopping")
	_, err = perform[any](t, &stubBackend{wait: true}, activities.CreateSandbox, activities.SandboxSpec{}, stopped())
	requireRetried(t, err)
}

// The server learns within the heartbeat timeout that a worker was killed, and
// the worker that a call was cancelled.
func TestHeartbeats(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	beats := 0
	_, err := perform[any](t, &stubBackend{guest: &stubGuest{wait: true}}, activities.RunCommand,
		task(session.RunCommandIn{Command: "sleep 60"}), func(env *testsuite.TestActivityEnvironment) {
			env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
			env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) {
				beats++
				cancel() // the environment passes further ones on after 30 s only
			})
		})
	require.Error(t, err)
	require.Equal(t, 1, beats)
}

// An interrupt refuses a call that has not begun, and stops one that has.
func TestInterrupt(t *testing.T) {
	long := strings.Repeat("x", guest.MaxCallID)
	for name, row := range map[string]struct {
		guest stubGuest
		stops int
		fails bool
	}{
		"not begun":       {stubGuest{refused: true}, 0, false},
		"begun":           {stubGuest{}, 1, false},
		"no command":      {stubGuest{stopErr: guest.Errorf(guest.CodeNotFound, "x")}, 1, false},
		"died with guest": {stubGuest{stopErr: guest.Errorf(guest.CodeLost, "x")}, 1, false},
		"no answer":       {stubGuest{stopErr: guest.ErrUnreachable}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := task(activities.None{})
			in.CallID = long
			_, err := perform[activities.None](t, &stubBackend{state: activities.SandboxRunning, guest: &row.guest}, activities.Interrupt, in)
			require.Equal(t, row.fails, err != nil, "%v", err)
			require.Len(t, row.guest.stops, row.stops)
			for _, s := range row.guest.stops {
				require.Equal(t, long, s.CommandID)
				require.True(t, guest.ValidCallID(s.CallID), s.CallID)
			}
		})
	}
}

func TestRunRequest(t *testing.T) {
	zero := 0
	stdin := "in"
	g := &stubGuest{run: guest.Command{CallID: "c_1", Status: guest.StatusRunning}}
	in := task(session.RunCommandIn{Command: "x", Env: map[string]string{"A": "call"}, WaitSeconds: &zero, MaxOutputBytes: 8})
	in.Env = map[string]string{"A": "session", "B": "session"}
	_, err := perform[session.RunCommandOut](t, &stubBackend{guest: g}, activities.RunCommand, in)
	require.NoError(t, err)
	require.Equal(t, guest.RunRequest{
		CallID: "c_1", ArgsDigest: "d", Command: "x", Env: map[string]string{"A": "call", "B": "session"}, KeepStdin: true, MaxOutput: 8,
	}, g.runs[0])

	_, err = perform[session.RunCommandOut](t, &stubBackend{guest: g}, activities.RunCommand,
		task(session.RunCommandIn{Command: "x", Stdin: &stdin}))
	require.NoError(t, err)
	require.Equal(t, []byte("in"), g.runs[1].Stdin)
	require.False(t, g.runs[1].KeepStdin)
	require.EqualValues(t, 45_000, g.runs[1].WaitMS)
	require.EqualValues(t, 600_000, g.runs[1].TimeoutMS)
}

func TestReadFile(t *testing.T) {
	for name, row := range map[string]struct {
		files             []guest.File
		encoding          string
		content, encoded  string
		failure           string
		truncated, exact2 bool
	}{
		"text":                  {[]guest.File{{Content: []byte("a\n")}}, "", "a\n", session.UTF8, "", false, false},
		"text as base64":        {[]guest.File{{Content: []byte("a\n")}}, session.Base64, "YQo=", session.Base64, "", false, false},
		"binary":                {[]guest.File{{Content: []byte("\xff\x00")}}, "", "/wA=", session.Base64, "", false, false},
		"binary, lines cut":     {[]guest.File{{Content: []byte("\xff"), LinesCut: 1}, {Content: []byte("\xff\x00")}}, "", "/wA=", session.Base64, "", false, true},
		"binary, text asked":    {[]guest.File{{Content: []byte("\xff")}}, session.UTF8, "", "", string(session.FailedPrecondition), false, false},
		"a cut line is flagged": {[]guest.File{{Content: []byte("a"), LinesCut: 1}}, "", "a", session.UTF8, "", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := &stubGuest{file: row.files}
			out, err := perform[session.ReadFileOut](t, &stubBackend{guest: g}, activities.ReadFile,
				task(session.ReadFileIn{Path: "f", Limit: 10, Encoding: row.encoding}))
			if row.failure != "" {
				requireFinal(t, err, row.failure)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.content, out.Content)
			require.Equal(t, row.encoded, out.Encoding)
			require.Equal(t, row.truncated, out.Truncated)
			require.Equal(t, row.exact2, len(g.reads) == 2)
		})
	}
}

type finder struct{ err error }

func (f finder) FindSnapshot(context.Context, string, string) (session.SnapshotRecord, error) {
	return session.SnapshotRecord{Found: true, HostID: "h"}, f.err
}

func TestPlacement(t *testing.T) {
	for name, row := range map[string]struct {
		err     error
		failure string
	}{
		"found":   {nil, ""},
		"foreign": {session.NoSnapshot("snap_x"), string(session.NotFound)},
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			activities.NewPlacement("h", finder{row.err}).Register(env)
			v, err := env.ExecuteActivity(activities.PlaceSession, activities.None{})
			require.NoError(t, err)
			var place activities.Place
			require.NoError(t, v.Get(&place))
			require.Equal(t, activities.Place{HostID: "h", Queue: "mcp-sandbox/host/h"}, place)

			_, err = env.ExecuteActivity(activities.DescribeSnapshot, activities.SnapshotQuery{Owner: "o", SnapshotID: "snap_x"})
			if row.failure == "" {
				require.NoError(t, err)
				return
			}
			requireFinal(t, err, row.failure)
		})
	}
}
