package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// shortSeed is of the short form.
const shortSeed = 11

// The short form of `make faults`: few sessions, each kind of fault once. It is
// bounded by their number, not by time.
func TestFaults(t *testing.T) {
	r, code := faults(t, harness.Binary(t), "--faults", strconv.Itoa(len(kindNames(false))))
	require.Zero(t, code, "%+v", r)
	require.Greater(t, r.Calls, 50)
	for _, name := range kindNames(false) {
		require.Equal(t, 1, r.Kills[name]+r.Missed[name], name)
	}
}

// The harness finds a fault that is there: with a guest that forgets call IDs,
// calls that are sent again take effect again.
func TestFindsPlantedFault(t *testing.T) {
	binary := os.Getenv("MCP_SANDBOX_PLANTED")
	if binary == "" {
		t.Skip("needs a binary with a planted fault: make faults-planted")
	}
	r, code := faults(t, binary, "--faults", strconv.Itoa(len(kindNames(false))))
	require.Equal(t, 1, code)
	require.Positive(t, r.DoubleEffects, "%+v", r)
	t.Logf("%d double effects, such as: %s", r.DoubleEffects, r.Findings[0])
}

// faults runs one bounded round.
func faults(t *testing.T, binary string, more ...string) (*Report, int) {
	t.Helper()
	harness.Docker(t) // skips where there is no engine
	var stdout, stderr bytes.Buffer
	args := append([]string{
		"--binary", binary, "--seed", strconv.Itoa(shortSeed), "--rounds", "1", "--for", "10m", "--sessions", "3", "--json",
	}, more...)
	code := run(t.Context(), args, &stdout, &stderr)
	t.Log(stderr.String())
	var r Report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), stdout.String())
	return &r, code
}
