package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

func stop(t *testing.T, api guest.API, id, signal string) guest.Command {
	t.Helper()
	c, err := api.Stop(t.Context(), guest.StopRequest{CallID: callID(), CommandID: id, Signal: signal, GraceMS: 300})
	require.NoError(t, err)
	return c
}

// ready starts a command and waits for its first line.
func ready(t *testing.T, api guest.API, command string) guest.Command {
	t.Helper()
	c := background(t, api, command)
	require.Equal(t, "ready\n", string(output(t, api, c.CallID, 0).Data))
	return c
}

func TestStopSignals(t *testing.T) {
	s := start(t, options(t))
	m := mark()
	for _, c := range []struct {
		command, signal string
		status          guest.Status
		killedBy        string
		exit            int
	}{
		{"echo ready; sleep " + m, "", guest.StatusStopped, "TERM", 0},
		{"echo ready; exec sleep " + m, "SIGKILL", guest.StatusStopped, "KILL", 0},
		{"trap '' TERM; echo ready; sleep " + m + "; sleep " + m, "TERM", guest.StatusStopped, "KILL", 0},
		{"trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done", "term", guest.StatusStopped, "", 5},
		{"trap 'exit 7' INT; echo ready; while :; do sleep 0.01; done", "INT", guest.StatusExited, "", 7}, // A10
		{"echo ready; exec sleep " + m, "USR1", guest.StatusStopped, "USR1", 0},
	} {
		got := stop(t, s, ready(t, s, c.command).CallID, c.signal)
		require.Equal(t, c.status, got.Status, c.command)
		require.Equal(t, c.killedBy, got.Signal, c.command)
		if c.killedBy == "" {
			require.Equal(t, c.exit, *got.ExitCode)
		}
		require.False(t, alive(m), c.command)
	}
}

func TestStopGivesDescendantsTheirGrace(t *testing.T) {
	s := start(t, options(t))
	c := ready(t, s, "sh -c 'trap \"sleep 0.1; echo saved >saved; exit\" TERM; echo ready; while :; do sleep 0.01; done' & wait")
	got, err := s.Stop(t.Context(), guest.StopRequest{CallID: callID(), CommandID: c.CallID})
	require.NoError(t, err)
	require.Equal(t, guest.StatusStopped, got.Status)
	require.Equal(t, "saved\n", sh(t, s, "cat saved"))
}

func TestStopIsRemembered(t *testing.T) {
	s := start(t, options(t))
	c := ready(t, s, "echo ready; sleep "+mark())
	req := guest.StopRequest{CallID: callID(), CommandID: c.CallID}
	first, err := s.Stop(t.Context(), req)
	require.NoError(t, err)
	again, err := s.Stop(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, guest.StatusStopped, stop(t, s, c.CallID, "KILL").Status, "it has ended already")

	_, err = s.Stop(t.Context(), guest.StopRequest{CallID: callID(), CommandID: c.CallID, Signal: "NONE"})
	require.Equal(t, guest.CodeInvalid, guest.CodeOf(err))
}

func TestStopIgnoredSignal(t *testing.T) {
	s := start(t, options(t))
	c := ready(t, s, "trap '' HUP; echo ready; read x")
	require.Equal(t, guest.StatusRunning, stop(t, s, c.CallID, "HUP").Status)
	u, err := s.Usage(t.Context())
	require.NoError(t, err)
	require.Len(t, u.Running, 1)
	require.Equal(t, c.CallID, u.Running[0].CallID)
	require.Contains(t, u.Running[0].Command, "trap")
}

func TestStopForkingTree(t *testing.T) { // A12, bounded
	s := start(t, options(t))
	m := mark()
	c := ready(t, s, "echo ready; f() { sleep "+m+" & [ $1 -gt 6 ] || { f $(($1+1)) & f $(($1+1)) & }; wait; }; f 1")
	began := time.Now()
	stop(t, s, c.CallID, "KILL")
	require.Less(t, time.Since(began), 5*time.Second)
	require.False(t, alive(m))
}

func TestCloseEndsEverything(t *testing.T) { // D2
	opts := options(t)
	s := start(t, opts)
	m := mark()
	plain := ready(t, s, "echo ready; sleep "+m)
	ready(t, s, "trap '' TERM; echo ready; sleep "+m+"; sleep "+m)
	left := run(t, s, request("setsid sleep "+m+" & echo left"))
	began := time.Now()
	require.NoError(t, s.Close())
	require.Less(t, time.Since(began), time.Second)
	require.False(t, alive(m))
	_, err := s.Run(t.Context(), request("true"))
	require.Equal(t, guest.CodePrecondition, guest.CodeOf(err))

	s = start(t, opts)
	require.Equal(t, guest.StatusStopped, output(t, s, plain.CallID, 0).Command.Status)
	require.Equal(t, "left\n", string(output(t, s, left.CallID, 0).Data))
}
