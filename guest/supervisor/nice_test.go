package supervisor_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest/supervisor"
)

func TestCommandsAreNice(t *testing.T) { // A12
	s := start(t, options(t))
	c := run(t, s, request("nice; (nice)"))
	want := strconv.Itoa(supervisor.CommandNice) + "\n"
	require.Equal(t, want+want, string(c.Stdout.Head))
}
