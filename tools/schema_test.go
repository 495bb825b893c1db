package tools_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// A change of what clients see shows in the diff of a golden file.
func TestSchemaGoldens(t *testing.T) {
	want := map[string]bool{}
	for _, spec := range tools.Catalog() {
		want[spec.Name+".json"] = true
		t.Run(spec.Name, func(t *testing.T) {
			b, err := json.Marshal(spec.Tool())
			require.NoError(t, err)
			var out bytes.Buffer
			require.NoError(t, json.Indent(&out, b, "", "  "))
			out.WriteByte('\n')
			golden(t, filepath.Join("schemas", spec.Name+".json"), out.Bytes())
		})
	}
	files, err := os.ReadDir("testdata/schemas")
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, want[f.Name()], "testdata/schemas/%s belongs to no tool", f.Name())
	}
}

func TestTableGolden(t *testing.T) {
	golden(t, "table.md", []byte(tools.Table()))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "no golden file; go test ./tools -update writes it")
	require.Equal(t, string(want), string(got), "go test ./tools -update rewrites the golden file")
}

func TestCatalogIsComplete(t *testing.T) {
	want := []string{
		"start_session", "list_sessions", "get_session", "end_session",
		"run_command", "read_output", "send_input", "stop_command",
		"read_file", "write_file", "edit_file",
		"snapshot", "list_snapshots", "delete_snapshot", "restore_snapshot",
	}
	got := make([]string, 0, len(want))
	for _, spec := range tools.Catalog() {
		got = append(got, spec.Name)
		require.Contains(t, tools.Toolsets(), spec.Toolset, spec.Name)
		require.NotEmpty(t, spec.Title, spec.Name)
		require.NotEmpty(t, spec.Description, spec.Name)
		require.LessOrEqual(t, len(spec.Description), 200, spec.Name)
	}
	require.Equal(t, want, got) // equal lists: unique names too
}

// C9: read-only tools say so, and only what destroys says so.
func TestAnnotations(t *testing.T) {
	readOnly := []string{"list_sessions", "get_session", "read_output", "read_file", "list_snapshots"}
	harmless := append([]string{"start_session", "snapshot"}, readOnly...)
	for _, spec := range tools.Catalog() {
		a := spec.Tool().Annotations
		for _, hint := range []*bool{a.ReadOnlyHint, a.DestructiveHint, a.IdempotentHint, a.OpenWorldHint} {
			require.NotNil(t, hint, spec.Name)
		}
		require.Equal(t, slices.Contains(readOnly, spec.Name), *a.ReadOnlyHint, spec.Name)
		require.Equal(t, slices.Contains(harmless, spec.Name), !*a.DestructiveHint, spec.Name)
		if *a.ReadOnlyHint {
			require.True(t, *a.IdempotentHint, spec.Name)
		}
	}
}

// selfEvident are properties whose name and type say it all.
var selfEvident = map[string]bool{
	"command_id": true, "status": true, "exit_code": true, "signal": true, "stdout": true, "stderr": true,
	"stderr_bytes": true, "duration_ms": true, "data": true, "encoding": true, "bytes_written": true,
	"content": true, "mode": true, "path": true, "size": true, "created": true, "sha256": true,
	"replacements": true, "start_line": true, "end_line": true, "name": true, "image": true, "network": true,
	"cpus": true, "memory_mb": true, "max_bytes": true, "limit": true, "stream": true, "replace_all": true,
	"session_id": true, "snapshot_id": true, "sessions": true, "snapshots": true, "working_dir": true,
	"started_at": true, "ended_at": true, "created_at": true, "expires_at": true, "workflow_id": true,
	"run_id": true, "command": true, "memory_bytes": true, "memory_limit_bytes": true, "cpu_seconds": true,
	"pids": true, "pids_limit": true, "note": true, "size_bytes": true, "excluded": true,
}

func TestSchemas(t *testing.T) {
	for _, spec := range tools.Catalog() {
		t.Run(spec.Name, func(t *testing.T) {
			for _, root := range []*jsonschema.Schema{spec.Input, spec.Output} {
				require.Equal(t, "object", root.Type)
				walk(root, func(name string, s *jsonschema.Schema) {
					require.Empty(t, s.Types, "%s: a type array", name)
					require.NotEmpty(t, s.Type, name)
					if name != "" {
						require.True(t, s.Description != "" || selfEvident[name], "%s has no description", name)
					}
				})
				_, err := root.Resolve(nil)
				require.NoError(t, err)
			}
			input, err := json.Marshal(spec.Input)
			require.NoError(t, err)
			require.Contains(t, string(input), `"additionalProperties":false`)
			output, err := json.Marshal(spec.Output)
			require.NoError(t, err)
			require.NotContains(t, string(output), `additionalProperties`, "results may grow")
		})
	}
}

// Defaults and maxima are published; nothing is clamped in silence.
func TestLimitsArePublished(t *testing.T) {
	for _, spec := range tools.Catalog() {
		for name, s := range spec.Input.Properties {
			if (s.Type == "integer" || s.Type == "number") && name != "offset" {
				require.NotNil(t, s.Maximum, "%s.%s", spec.Name, name)
				require.NotNil(t, s.Minimum, "%s.%s", spec.Name, name)
			}
			if s.Type == "integer" && !slices.Contains(spec.Input.Required, name) {
				require.True(t, s.Default != nil || s.Description != "", "%s.%s: no default", spec.Name, name)
			}
		}
	}
	wait := find(t, "run_command").Input.Properties["wait_seconds"]
	require.JSONEq(t, "45", string(wait.Default))
	require.InDelta(t, 50, *wait.Maximum, 0)
	require.JSONEq(t, `"none"`, string(find(t, "start_session").Input.Properties["network"].Default))
}

func TestSessionArgument(t *testing.T) {
	global := []string{"start_session", "list_sessions", "list_snapshots", "delete_snapshot"}
	for _, spec := range tools.Catalog() {
		required := slices.Contains(spec.Input.Required, "session_id")
		require.Equal(t, !slices.Contains(global, spec.Name), required, spec.Name)
	}
	for name, tool := range list(t, tools.Options{DefaultSession: defaultSession("s_default")}) {
		require.NotContains(t, tool.Required, "session_id", name)
		if !slices.Contains(global, name) {
			require.Contains(t, tool.Properties, "session_id", name)
		}
	}
}

func TestNetworksOnOffer(t *testing.T) {
	for _, row := range []struct{ networks, want []string }{
		{nil, []string{"none"}},
		{[]string{"full"}, []string{"none", "full"}},
		{[]string{"none", "full"}, []string{"none", "full"}},
	} {
		schema := list(t, tools.Options{Networks: row.networks})["start_session"]
		got := make([]string, 0, len(row.want))
		for _, v := range schema.Properties["network"].Enum {
			got = append(got, v.(string))
		}
		require.Equal(t, row.want, got)
	}
}

func TestToolsets(t *testing.T) {
	require.NoError(t, tools.CheckToolsets(tools.Toolsets()))
	require.ErrorContains(t, tools.CheckToolsets([]string{"core", "nosuch"}), "core, files, snapshots, observe")
	require.Panics(t, func() { tools.New(tools.Options{Toolsets: []string{"nosuch"}}) })
	got := list(t, tools.Options{Toolsets: []string{tools.ToolsetFiles}})
	require.Len(t, got, 3)
	require.Contains(t, got, "read_file")
}

// The list is sent with every request of most agents: keep it small. Four
// characters of JSON are about one token.
func TestListIsSmall(t *testing.T) {
	total := 0
	for _, spec := range tools.Catalog() {
		b, err := json.Marshal(spec.Tool())
		require.NoError(t, err)
		total += len(b)
	}
	t.Logf("%d tools, %d characters", len(tools.Catalog()), total)
	require.Less(t, total/4, 6000)
}

// Every tag that session.Validate reads is in the schema.
func TestTagsReachSchemas(t *testing.T) {
	s := find(t, "run_command").Input.Properties
	require.Equal(t, 1, *s["command"].MinLength)
	require.Equal(t, 262144, *s["command"].MaxLength)
	require.Equal(t, "string", s["stdin"].Type)
	require.Equal(t, "string", s["env"].AdditionalProperties.Type)
	out := find(t, "list_snapshots").Output.Properties["snapshots"]
	require.Equal(t, "array", out.Type)
	require.Equal(t, "array", out.Items.Properties["excluded"].Type)
	require.Equal(t, []any{session.CommandExited, session.CommandRunning, session.CommandTimedOut, session.CommandStopped, session.CommandLost},
		find(t, "run_command").Output.Properties["status"].Enum)
}

func find(t *testing.T, name string) tools.Spec {
	t.Helper()
	for _, spec := range tools.Catalog() {
		if spec.Name == name {
			return spec
		}
	}
	require.Failf(t, "no such tool", "%s", name)
	return tools.Spec{}
}

// list gives the input schemas of a server's tools.
func list(t *testing.T, opts tools.Options) map[string]jsonschema.Schema {
	t.Helper()
	schemas := map[string]jsonschema.Schema{}
	for name, tool := range tools.New(opts).ListTools() {
		var s jsonschema.Schema
		require.NoError(t, json.Unmarshal(tool.Tool.RawInputSchema, &s))
		schemas[name] = s
	}
	return schemas
}

func walk(s *jsonschema.Schema, f func(name string, s *jsonschema.Schema)) {
	var visit func(name string, s *jsonschema.Schema)
	visit = func(name string, s *jsonschema.Schema) {
		if s == nil || s.Not != nil {
			return
		}
		f(name, s)
		for key, p := range s.Properties {
			visit(key, p)
		}
		visit("", s.Items)
		visit("", s.AdditionalProperties)
	}
	visit("", s)
}
