package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// What an operator terminates in Temporal is removed by the host's own schedule,
// within a period; what lives is left alone, and what is another installation's.
func TestReaper(t *testing.T) {
	t.Parallel()
	const period = 2 * time.Second
	s := harness.Start(t, "--reap-every", period.String())
	c := s.Client()
	gone, lives := c.StartSession(t, nil), c.StartSession(t, nil)
	kept := c.OK(t, "snapshot", harness.Args{"session_id": gone}).Str("snapshot_id")
	deleted := c.OK(t, "snapshot", harness.Args{"session_id": lives}).Str("snapshot_id")
	began := time.Now()
	temporal := s.Temporal(t)
	for _, id := range []string{session.WorkflowIDPrefix + gone, session.SnapshotWorkflowIDPrefix + deleted} {
		require.NoError(t, temporal.TerminateWorkflow(t.Context(), id, "", "by an operator"))
	}
	none := harness.Holdings{}
	require.Eventually(t, func() bool {
		held := s.Holdings(t, session.LabelSession, gone)
		held.Images = 0 // the snapshot that is kept
		return held == none && s.Holdings(t, session.LabelSnapshot, deleted) == none
	}, period+10*time.Second, 50*time.Millisecond, "the machine may be slow, but not so slow")
	t.Logf("all was gone %s after it was terminated; the period is %s", time.Since(began).Round(10*time.Millisecond), period)
	require.Equal(t, "hello\n", c.Run(t, lives, "echo hello").Str("stdout"))
	c.OK(t, "restore_snapshot", harness.Args{"session_id": lives, "snapshot_id": kept})
	require.Eventually(t, func() bool {
		return strings.Contains(c.Metrics(t), `mcp_sandbox_reaped_total{mcp_sandbox_kind="volume"} 1`)
	}, 5*time.Second, 100*time.Millisecond, c.Metrics(t))

	t.Run("command", func(t *testing.T) { reapCommand(t, s, lives) })
}

// reapCommand is an installation beside another one, whose session lives.
func reapCommand(t *testing.T, other *harness.Server, lives string) {
	s := harness.Start(t, "--reap-every", "0", "--reap-min-age", "1s")
	c := s.Client()
	gone, mine := c.StartSession(t, nil), c.StartSession(t, nil)
	kept := c.OK(t, "snapshot", harness.Args{"session_id": gone}).Str("snapshot_id")
	orphan := c.OK(t, "snapshot", harness.Args{"session_id": gone}).Str("snapshot_id")
	foreign := s.ForeignContainer(t, "mcp-sandbox/snapshot:"+kept)
	temporal := s.Temporal(t)
	require.NoError(t, temporal.TerminateWorkflow(t.Context(), session.WorkflowIDPrefix+gone, "", "by an operator"))
	forget(t, s, session.SnapshotWorkflowIDPrefix+orphan) // as if its worker had died before there was one
	before := s.Holdings(t, "", "")

	require.Eventually(t, func() bool { return reaped(t, s, "--dry-run")["found"] == 3 }, 10*time.Second, 200*time.Millisecond, "when all are old enough")
	table := cli(t, s, "reap", "--dry-run").ok(t).stdout
	require.Regexp(t, `(?m)^OUTCOME +KIND +ID +OF +CREATED +HOST +REASON$`, table)
	require.Regexp(t, `(?m)^found +volume +mcp-sandbox-\S+ +`+gone+` +20\S+Z +\S+ +its session has ended$`, table)
	require.Regexp(t, `(?m)^found +image +\S{12} +`+orphan+` .* no snapshot of its ID is known$`, table)
	require.Regexp(t, `(?m)^left +container +\S{12} +`+mine+` .* its session lives$`, table)
	require.Regexp(t, `(?m)^left +image +\S{12} +`+kept+` .* its snapshot is kept$`, table)
	require.Regexp(t, `(?m)^left +container .* it is somebody else's$`, table)
	require.NotContains(t, table, lives, "that is another installation's")
	require.Equal(t, before, s.Holdings(t, "", ""), "a dry run removes nothing")

	require.Equal(t, 3, reaped(t, s)["removed"])
	require.Zero(t, reaped(t, s)["removed"])
	after := before
	after.Containers, after.Volumes, after.Images, after.Execs = before.Containers-1, before.Volumes-1, before.Images-1, before.Execs-1
	require.Equal(t, after, s.Holdings(t, "", ""))
	require.True(t, foreign())
	c.OK(t, "restore_snapshot", harness.Args{"session_id": mine, "snapshot_id": kept})
	require.Equal(t, "hello\n", other.Client().Run(t, lives, "echo hello").Str("stdout"))
}

// reaped gives how many things each outcome had.
func reaped(t *testing.T, s *harness.Server, flags ...string) map[string]int {
	t.Helper()
	var d struct{ Hosts []session.ReapReport }
	cli(t, s, append([]string{"reap", "--json"}, flags...)...).ok(t).decode(t, &d)
	require.Len(t, d.Hosts, 1)
	require.Empty(t, d.Hosts[0].Error)
	counts := map[string]int{}
	for _, thing := range d.Hosts[0].Things {
		counts[thing.Outcome]++
	}
	return counts
}

// forget makes Temporal know nothing of a workflow.
func forget(t *testing.T, s *harness.Server, workflowID string) {
	t.Helper()
	c := s.Temporal(t)
	_, err := c.WorkflowService().DeleteWorkflowExecution(t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := c.DescribeWorkflowExecution(t.Context(), workflowID, "")
		return err != nil
	}, 10*time.Second, 50*time.Millisecond)
}
