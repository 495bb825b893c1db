package e2e_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// serveArgs are those of a server whose environment a test chooses.
func serveArgs(dataDir string) []string {
	return []string{
		"serve", "--data-dir", dataDir, "--listen", "127.0.0.1:0", "--temporal-ui", "off", "--default-image", harness.TestImage,
	}
}

// under gives the paths of the spans of an update, from those of its handler's
// children.
func under(tool string, children ...string) []string {
	call := "tools/call " + tool
	update := call + " > UpdateWorkflow:" + tool
	handler := update + " > HandleUpdate:" + tool
	paths := []string{call, update, handler}
	for _, c := range children {
		paths = append(paths, handler+" > "+c)
	}
	return paths
}

// ways are how the trace of an operation may look: near gives the handler's
// children if the near way answers, as it does on a quiet machine; on a busy one
// the host's queue may be asked as well. The process of a command that the near
// way only began is then the handler's.
func ways(tool, operation string, exec bool) [][]string {
	near, host := []string{"RunActivity:Near" + operation}, []string{"RunActivity:Near" + operation, "QueueWait:" + operation, "RunActivity:" + operation}
	if exec {
		near = append(near, "RunActivity:Near"+operation+" > exec")
		host = append(host, "exec")
	}
	return [][]string{under(tool, near...), under(tool, host...)}
}

// Each call leaves one connected trace, from the tool to the process, which joins
// it to Temporal's history; and metrics and log lines.
func TestTraces(t *testing.T) {
	t.Parallel()
	collector := harness.StartCollector(t)
	dir := filepath.Join(t.TempDir(), "data")
	p := harness.StartProcess(t, collector.Env(), append(serveArgs(dir), "--log-level", "debug")...)
	c := p.Client(dir)
	started := c.OK(t, "start_session", nil)
	id := started.Str("session_id")

	for name, call := range map[string]struct {
		tool string
		args harness.Args
		ways [][]string
	}{
		"short command": {
			"run_command",
			harness.Args{"command": "echo hi; exit 3"},
			ways("run_command", "RunCommand", true),
		},
		"long command": {
			"run_command",
			harness.Args{"command": "sleep 0.5; exit 3"},
			ways("run_command", "RunCommand", true)[1:],
		},
		"write_file": {"write_file", harness.Args{"path": "f", "content": "x"}, ways("write_file", "WriteFile", false)},
		"read_file":  {"read_file", harness.Args{"path": "/etc/passwd"}, ways("read_file", "ReadFile", false)},
		"snapshot": {"snapshot", nil, [][]string{under(
			"snapshot", "QueueWait:TakeSnapshot", "RunActivity:TakeSnapshot", "RunActivity:TakeSnapshot > docker POST /commit",
		)}},
	} {
		t.Run(name, func(t *testing.T) {
			args := harness.Args{"session_id": id}
			maps.Copy(args, call.args)
			r := c.OK(t, call.tool, args)
			traceID, _ := r.Meta[session.MetaTraceID].(string)
			trace := collector.AwaitOneOf(t, traceID, call.ways...)
			trace.RequireInside(t)
			for _, span := range trace {
				if strings.HasPrefix(span.Name, "docker ") {
					continue // by Docker's client
				}
				require.Equal(t, id, span.Attributes[session.KeySession], span.Name)
				require.Equal(t, r.CallID(), span.Attributes[session.KeyCall], span.Name)
				if span.Name != "exec" {
					require.Equal(t, r.Meta[session.MetaWorkflowID], span.Attributes[session.KeyWorkflow], span.Name)
					require.Equal(t, r.Meta[session.MetaRunID], span.Attributes[session.KeyRun], span.Name)
				}
				for key, v := range span.Attributes {
					require.NotContains(t, fmt.Sprint(v), "exit 3", "%s of %s", key, span.Name)
				}
			}
			for _, name := range []string{"UpdateWorkflow:" + call.tool, "HandleUpdate:" + call.tool} {
				require.Equal(t, r.CallID(), trace.Named(name)[0].Attributes[session.KeyUpdate])
			}
			for _, exec := range trace.Named("exec") {
				require.Equal(t, int64(3), exec.Attributes[session.KeyExitCode])
				require.Equal(t, "exited", exec.Attributes[session.KeyCommandStatus])
			}
			require.Contains(t, p.Log(), "trace_id="+traceID)
		})
	}

	t.Run("C13 the caller's context", func(t *testing.T) {
		const metaTrace, headerTrace, parent = "11111111111111111111111111111111", "22222222222222222222222222222222", "3333333333333333"
		traceparent := func(id string) string { return "00-" + id + "-" + parent + "-01" }
		for _, form := range []struct{ name, meta, header, want string }{
			{"meta", traceparent(metaTrace), "", metaTrace},
			{"header", "", traceparent(headerTrace), headerTrace},
			{"both", traceparent(metaTrace[:31] + "4"), traceparent(headerTrace), metaTrace[:31] + "4"},
			{"none", "", "", ""},
			{"malformed", "00-xyz", "nonsense", ""},
		} {
			r := c.WithTrace(form.meta, form.header).OK(t, "read_file", harness.Args{"session_id": id, "path": "/etc/passwd"})
			traceID, _ := r.Meta[session.MetaTraceID].(string)
			trace := collector.AwaitOneOf(t, traceID, ways("read_file", "ReadFile", false)...)
			call := trace.Named("tools/call read_file")[0]
			if form.want == "" {
				require.Empty(t, call.Parent, form.name)
				continue
			}
			require.Equal(t, form.want, traceID, form.name)
			require.Equal(t, parent, call.Parent, form.name)
			if form.name == "both" {
				require.Equal(t, []string{headerTrace}, call.Links)
			}
		}
	})

	t.Run("metrics", func(t *testing.T) {
		require.True(t, c.Call(t, "read_file", harness.Args{"session_id": id, "path": "none"}).IsError)
		text := c.Metrics(t)
		for _, want := range []string{
			`mcp_sandbox_call_duration_seconds_count{mcp_sandbox_outcome="NotFound",mcp_sandbox_tool="read_file"} 1`,
			`mcp_sandbox_call_duration_seconds_count{mcp_sandbox_outcome="ok",mcp_sandbox_tool="run_command"} 2`,
			`mcp_server_operation_duration_seconds_bucket{error_type="tool_error",gen_ai_operation_name="execute_tool",gen_ai_tool_name="read_file",mcp_method_name="tools/call",le="0.01"}`,
			`temporal_request_total{`, `temporal_workflow_task_execution_latency_seconds_bucket{`, `temporal_local_activity_execution_latency_seconds_count{`,
		} {
			require.Contains(t, text, want)
		}
		for _, secret := range []string{id, strings.TrimPrefix(id, "s_"), fmt.Sprint(started.Meta[session.MetaRunID]), started.CallID()} {
			require.NotContains(t, text, secret, "bounded in number: no IDs")
		}
		require.Eventually(t, func() bool { return collector.Metrics() > 0 }, 10*time.Second, 20*time.Millisecond)
	})

	end := c.OK(t, "end_session", harness.Args{"session_id": id})
	traceID, _ := end.Meta[session.MetaTraceID].(string)
	call := "tools/call end_session"
	collector.Await(t, traceID, call, call+" > QueryWorkflow:status", call+" > SignalWorkflow:end",
		call+" > SignalWorkflow:end > QueueWait:RemoveSession", call+" > SignalWorkflow:end > RunActivity:RemoveSession",
		call+" > SignalWorkflow:end > RunActivity:RemoveSession > docker DELETE /containers/{id}",
		call+" > SignalWorkflow:end > RunActivity:RemoveSession > docker DELETE /volumes/{id}")
}

// The server is killed in mid-command and the client sends the call again, in the
// same trace. There are two tool calls in it, as there were, but one handler and
// one process.
func TestTraceOverAKill(t *testing.T) {
	t.Parallel()
	collector := harness.StartCollector(t)
	dir := filepath.Join(t.TempDir(), "data")
	p := harness.StartProcess(t, collector.Env(), serveArgs(dir)...)
	c := p.Client(dir)
	id := c.StartSession(t, nil)
	const traceID = "55555555555555555555555555555555"
	traceparent := "00-" + traceID + "-6666666666666666-01"
	args := harness.Args{"session_id": id, "command": "touch begun; sleep 3; exit 5"}
	c.WithTrace(traceparent, "").Go(t, "killed", "run_command", args)
	c.Run(t, id, "until test -e begun; do sleep 0.05; done")
	p.Kill()

	p = harness.StartProcess(t, collector.Env(), serveArgs(dir)...)
	c = p.Client(dir)
	r := c.WithTrace(traceparent, "").Until(t, "killed", "run_command", args)
	require.Equal(t, 5, r.Num("exit_code"), r.Text)
	require.Eventually(t, func() bool { return len(collector.Trace(traceID).Named("HandleUpdate:run_command")) > 0 }, 10*time.Second, 20*time.Millisecond)
	c.OK(t, "end_session", harness.Args{"session_id": id})
	trace := collector.Trace(traceID)
	handler, exec := trace.Named("HandleUpdate:run_command"), trace.Named("exec")
	require.Len(t, handler, 1)
	require.Len(t, exec, 1)
	require.Equal(t, handler[0].ID, exec[0].Parent, "it began before the attempt that saw its end")
	require.Equal(t, int64(5), exec[0].Attributes[session.KeyExitCode])
	require.InDelta(t, 3, exec[0].End.Sub(exec[0].Start).Seconds(), 1)
	for _, attempt := range trace.Named("RunActivity:RunCommand") {
		require.Equal(t, handler[0].ID, attempt.Parent)
	}
	require.False(t, exec[0].Start.Before(handler[0].Start))
	require.False(t, exec[0].End.After(handler[0].End))
}

// A collector that refuses, and one that takes connections and never answers,
// cost no call anything and delay no end.
func TestCollectorThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	refusing, silent := harness.SilentCollectors(t)
	servers := []struct {
		name string
		env  []string
		c    *harness.Client
		p    *harness.Process
		id   string
		took time.Duration
	}{{name: "none"}, {name: "refusing", env: refusing}, {name: "silent", env: silent}}
	for i := range servers {
		s := &servers[i]
		dir := filepath.Join(t.TempDir(), "data")
		s.p = harness.StartProcess(t, s.env, serveArgs(dir)...)
		s.c = s.p.Client(dir)
		s.id = s.c.StartSession(t, nil)
	}
	const rounds = 40
	for range rounds { // by turns, so that what else the machine does hits all alike
		for i := range servers {
			s := &servers[i]
			_, took := s.c.Timed(t, "read_file", harness.Args{"session_id": s.id, "path": "/etc/passwd"})
			s.took += took
		}
	}
	for _, s := range servers {
		ratio := s.took.Seconds() / servers[0].took.Seconds()
		t.Logf("collector %s: %s per call, ratio %.2f", s.name, s.took/rounds, ratio)
		require.Less(t, ratio, 2.0, s.name)
		s.c.OK(t, "end_session", harness.Args{"session_id": s.id})
	}
	for _, s := range servers {
		began := time.Now()
		s.p.Terminate(t, 10*time.Second)
		t.Logf("collector %s: ended within %s", s.name, time.Since(began))
		require.Less(t, time.Since(began), 8*time.Second, s.name)
	}
}
