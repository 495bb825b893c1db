package tools_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// anyArguments are good ones for each tool.
var anyArguments = map[string]string{
	"start_session":    `{}`,
	"list_sessions":    `{}`,
	"get_session":      `{"session_id":"s"}`,
	"end_session":      `{"session_id":"s"}`,
	"run_command":      `{"session_id":"s","command":"x"}`,
	"read_output":      `{"session_id":"s","command_id":"c"}`,
	"send_input":       `{"session_id":"s","command_id":"c","data":"x"}`,
	"stop_command":     `{"session_id":"s","command_id":"c"}`,
	"read_file":        `{"session_id":"s","path":"p"}`,
	"write_file":       `{"session_id":"s","path":"p","content":"x"}`,
	"edit_file":        `{"session_id":"s","path":"p","old_str":"a","new_str":"b"}`,
	"snapshot":         `{"session_id":"s"}`,
	"list_snapshots":   `{}`,
	"delete_snapshot":  `{"snapshot_id":"snap_x"}`,
	"restore_snapshot": `{"session_id":"s","snapshot_id":"snap_x"}`,
}

// Some clients show the model the text alone: it must be enough.
func TestTexts(t *testing.T) {
	for name, row := range map[string]struct {
		tool   string
		result any
		want   string
	}{
		"B1 both streams": {"run_command", session.RunCommandOut{
			CommandID: "c_1", Status: "exited", ExitCode: new(3), Stdout: "out\n", Stderr: "err\n", StdoutBytes: 4, StderrBytes: 4, Encoding: "utf-8", DurationMS: 180,
		}, "out\n--- stderr ---\nerr\n[exit code 3, 0.2 s]"},
		"stderr alone": {"run_command", session.RunCommandOut{
			Status: "exited", ExitCode: new(1), Stderr: "err", StderrBytes: 3, Encoding: "utf-8", DurationMS: 1000,
		}, "err\n[exit code 1, 1.0 s; all on stderr]"},
		"no output": {"run_command", session.RunCommandOut{Status: "exited", ExitCode: new(0), Encoding: "utf-8"}, "[exit code 0, 0.0 s; no output]"},
		"running": {"run_command", session.RunCommandOut{
			CommandID: "c_1", Status: "running", Stdout: "a\n", StdoutBytes: 2, Encoding: "utf-8", DurationMS: 45000,
		}, "a\n[running, command_id c_1; 45.0 s so far; read on with read_output offset 2 (stderr 0), or stop_command]"},
		"B12 timed out": {"run_command", session.RunCommandOut{
			Status: "timed_out", Signal: "KILL", Stdout: "1\n", StdoutBytes: 2, Encoding: "utf-8", DurationMS: 4500,
		}, "1\n[timed out after 4.5 s and killed; for more time raise timeout_seconds]"},
		"stopped": {"run_command", session.RunCommandOut{Status: "stopped", Signal: "TERM", Encoding: "utf-8", DurationMS: 100}, "[stopped by signal TERM, 0.1 s; no output]"},
		"lost":    {"run_command", session.RunCommandOut{Status: "lost", Encoding: "utf-8"}, "[lost: how the command ended cannot be known; check what it did before running it again; no output]"},
		"B13 out of memory": {"run_command", session.RunCommandOut{
			Status: "exited", Signal: "KILL", OOMKilled: true, Encoding: "utf-8", DurationMS: 100, Note: "memory limit 64 MiB",
		}, "[killed by signal KILL, 0.1 s; no output; memory limit 64 MiB]"},
		"B3 cut": {"run_command", session.RunCommandOut{
			CommandID: "c_1", Status: "exited", ExitCode: new(2), Stdout: "1\n...\n", StdoutBytes: 1288895, Stderr: "FATAL\n", StderrBytes: 6, Truncated: true, Encoding: "utf-8",
		}, "1\n...\n--- stderr ---\nFATAL\n[exit code 2, 0.0 s; output cut, 1288895 bytes of stdout and 6 of stderr in all: read_output command_id c_1 offset 0 has them]"},
		"A1 held": {"run_command", session.RunCommandOut{
			CommandID: "c_1", Status: "exited", ExitCode: new(0), Stdout: "started\n", StdoutBytes: 8, OutputHeld: true, Encoding: "utf-8",
		}, "started\n[exit code 0, 0.0 s; a background child goes on with the output open: read_output command_id c_1 offset 8, or stop_command]"},
		"B6 lossy": {"run_command", session.RunCommandOut{
			Status: "exited", ExitCode: new(0), Stdout: "caf\uFFFD\n", StdoutBytes: 5, Encoding: "utf-8-lossy",
		}, "caf\uFFFD\n[exit code 0, 0.0 s; bytes that are not UTF-8 are shown as U+FFFD; read_output encoding base64 has them]"},
		"B6 base64": {"run_command", session.RunCommandOut{
			Status: "exited", ExitCode: new(0), Stdout: "/w==", StdoutBytes: 1, Encoding: "base64",
		}, "/w==\n[exit code 0, 0.0 s; shown as base64]"},

		"output, more": {"read_output", session.ReadOutputOut{Status: "running", Data: "ab", Encoding: "utf-8", Offset: 3, NextOffset: 5}, "ab\n[running; bytes 3 to 5; read on with offset 5]"},
		"output, none": {"read_output", session.ReadOutputOut{Status: "running", Encoding: "utf-8", Offset: 5, NextOffset: 5}, "[running; nothing past offset 5 yet; read on with offset 5 and wait_seconds]"},
		"output, end":  {"read_output", session.ReadOutputOut{Status: "exited", ExitCode: new(7), Data: "x\n", Encoding: "utf-8", NextOffset: 2, EOF: true}, "x\n[exit code 7; end of output at 2]"},
		"input":        {"send_input", session.SendInputOut{CommandID: "c_1", BytesWritten: 7}, "Wrote 7 bytes to command c_1; read_output shows its answer."},
		"stop":         {"stop_command", session.StopCommandOut{CommandID: "c_1", Status: "stopped", Signal: "KILL"}, "Command c_1: stopped by signal KILL."},

		"file": {"read_file", session.ReadFileOut{
			Path: "/srv/a", Content: "1\n2", Encoding: "utf-8", Size: 3, TotalLines: 2, StartLine: 1, EndLine: 2,
		}, "1\n2\n[/srv/a; 3 bytes; lines 1 to 2 of 2]"},
		"file, cut": {"read_file", session.ReadFileOut{
			Path: "/srv/a", Content: "1\n", Encoding: "utf-8", Size: 9, TotalLines: 5, StartLine: 1, EndLine: 1, Truncated: true,
		}, "1\n[/srv/a; 9 bytes; lines 1 to 1 of 5; cut; read on with offset 2]"},
		"file, empty":  {"read_file", session.ReadFileOut{Path: "/srv/a", Encoding: "utf-8"}, "[/srv/a; 0 bytes; empty]"},
		"file, base64": {"read_file", session.ReadFileOut{Path: "/a", Content: "/w==", Encoding: "base64", Size: 1, TotalLines: 1, StartLine: 1, EndLine: 1}, "/w==\n[/a; 1 bytes; lines 1 to 1 of 1; shown as base64]"},
		"created":      {"write_file", session.WriteFileOut{Path: "/a", Size: 1, SHA256: "h", Created: true}, "Created /a, now 1 bytes, sha256 h."},
		"edited":       {"edit_file", session.EditFileOut{Path: "/a", Replacements: 2, SHA256: "h", Diff: "-a\n+b\n"}, "-a\n+b\n[/a; 2 replacements; sha256 h]"},

		"started": {"start_session", session.StartSessionOut{
			SessionID: "s_1", Status: "running", Image: "img", WorkingDir: "/work", Network: "none", MemoryMB: 2048, CPUs: 1.5, ExpiresAt: "T",
		}, "session_id s_1: running; image img, working directory /work, network none, 2048 MiB of memory, 1.5 CPUs, until T. Give session_id to run_command and the other tools, and to end_session when done."},
		"sessions": {"list_sessions", session.ListSessionsOut{Sessions: []session.Info{
			{SessionID: "s_1", Name: "n", Status: "running", Image: "img", StartedAt: "T"}, {SessionID: "s_2", Status: "ended", Image: "img", StartedAt: "T", EndedAt: "U"},
		}}, "s_1 \"n\"  running  img  since T\ns_2  ended  img  since T to U"},
		"session": {"get_session", session.GetSessionOut{
			SessionID: "s_1", Status: "running", Image: "img", Network: "none", ExpiresAt: "T",
			Commands: []session.RunningCommand{{CommandID: "c_1", Command: "a\nb", StartedAt: "T"}},
			Usage:    &session.Usage{MemoryBytes: 1 << 20, MemoryLimitBytes: 2 << 20, CPUSeconds: 1.25, PIDs: 3, PIDsLimit: 9},
		}, "Session s_1: running; image img, network none, until T\nUses 1.0 MiB of 2.0 MiB of memory, 1.2 s of CPU, 3 of 9 processes\nRunning commands:\nc_1  since T  a ..."},
		"ended": {"end_session", session.EndSessionOut{SessionID: "s_1", Status: "ended"}, "Session s_1: ended."},

		"snapshot":  {"snapshot", session.SnapshotOut{SnapshotID: "snap_1", SizeBytes: 3 << 20, Excluded: []string{"/tmp"}}, "Snapshot snap_1, 3.0 MiB; restore_snapshot goes back to it, start_session with it makes a copy. Not in it: /tmp."},
		"snapshots": {"list_snapshots", session.ListSnapshotsOut{Snapshots: []session.SnapshotInfo{{SnapshotID: "snap_1", Name: "n", SessionID: "s_1", CreatedAt: "T"}}}, "snap_1 \"n\"  0.0 MiB  T  of s_1"},
		"deleted":   {"delete_snapshot", session.DeleteSnapshotOut{SnapshotID: "snap_1"}, "Snapshot snap_1 is deleted."},
		"restored":  {"restore_snapshot", session.RestoreSnapshotOut{SessionID: "s_1", Status: "running", SnapshotID: "snap_1"}, "Session s_1: running, with the files of snapshot snap_1."},
	} {
		t.Run(name, func(t *testing.T) {
			result := call(t, inProcess(t, tools.Options{Caller: &caller{answer: gives(row.result)}}), request(row.tool, anyArguments[row.tool]))
			require.False(t, result.IsError)
			require.Equal(t, row.want, text(t, result))
			want, err := json.Marshal(row.result)
			require.NoError(t, err)
			got, err := json.Marshal(result.StructuredContent)
			require.NoError(t, err)
			require.Equal(t, dropNulls(t, want), dropNulls(t, got))
		})
	}
}

// Clients refuse a result that does not fit the output schema: not even an
// empty one may.
func TestResultsFitTheirSchemas(t *testing.T) {
	require.Len(t, anyArguments, len(tools.Catalog()))
	for _, spec := range tools.Catalog() {
		t.Run(spec.Name, func(t *testing.T) {
			schema := spec.Output.CloneSchemas()
			for _, p := range schema.Properties {
				p.Enum = nil // an empty result has no status
			}
			resolved, err := schema.Resolve(nil)
			require.NoError(t, err)
			result := call(t, inProcess(t, tools.Options{Caller: &caller{}}), request(spec.Name, anyArguments[spec.Name]))
			require.NoError(t, resolved.Validate(result.StructuredContent))
		})
	}
}

// dropNulls decodes an object without empty lists, which nil ones become.
func dropNulls(t *testing.T, b []byte) map[string]any {
	t.Helper()
	m := map[string]any{}
	require.NoError(t, json.Unmarshal(b, &m))
	strip(m)
	return m
}

func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil || reflect.DeepEqual(value, []any{}) {
				delete(v, key)
			}
			strip(value)
		}
	case []any:
		for _, value := range v {
			strip(value)
		}
	}
}
