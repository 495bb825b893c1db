package session_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// arguments are the In types of all operations.
func arguments() []any {
	return []any{
		&session.StartSessionIn{}, &session.ListSessionsIn{}, &session.GetSessionIn{}, &session.EndSessionIn{},
		&session.RunCommandIn{}, &session.ReadOutputIn{}, &session.SendInputIn{}, &session.StopCommandIn{},
		&session.ReadFileIn{}, &session.WriteFileIn{}, &session.EditFileIn{},
		&session.SnapshotIn{}, &session.ListSnapshotsIn{}, &session.DeleteSnapshotIn{}, &session.RestoreSnapshotIn{},
	}
}

// Every tag of every field is read without a panic: with zero values, which are
// the defaults, and with others, which meet the limits.
func TestEveryTagParses(t *testing.T) {
	for _, in := range arguments() {
		require.NotPanics(t, func() { _ = session.Validate(in) }, "%T", in)
		v := reflect.ValueOf(in).Elem()
		for i := range v.NumField() {
			f := reflect.New(v.Type()).Elem()
			field := f.Field(i)
			if field.Kind() == reflect.Pointer {
				field.Set(reflect.New(field.Type().Elem()))
				field = field.Elem()
			}
			switch field.Kind() {
			case reflect.Int, reflect.Int64:
				field.SetInt(1)
			case reflect.Float64:
				field.SetFloat(1)
			case reflect.String:
				field.SetString("x")
			default:
			}
			require.NotPanics(t, func() { _ = session.Validate(f.Addr().Interface()) }, "%T.%s", in, v.Type().Field(i).Name)
		}
	}
}

func TestDefaults(t *testing.T) {
	start := session.StartSessionIn{}
	require.NoError(t, session.Validate(&start))
	require.Equal(t, session.StartSessionIn{
		Network: session.NetworkNone, MemoryMB: session.DefaultMemoryMB, CPUs: session.DefaultCPUs,
		IdleTimeoutSeconds: session.DefaultIdleTimeoutSeconds, MaxLifetimeSeconds: session.DefaultMaxLifetimeSeconds,
		OnLoss: session.OnLossRestore,
	}, start)

	run := session.RunCommandIn{Command: "x"}
	require.NoError(t, session.Validate(&run))
	require.Equal(t, 32768, run.MaxOutputBytes)
	require.Equal(t, session.DefaultWaitSeconds, run.Wait())
	require.Equal(t, session.DefaultTimeoutSeconds, run.Timeout())
	zero := 0
	run.WaitSeconds = &zero
	require.NoError(t, session.Validate(&run))
	require.True(t, run.Background())
	require.Zero(t, run.Timeout(), "none for a background command")

	out := session.ReadOutputIn{CommandID: "c"}
	require.NoError(t, session.Validate(&out))
	require.Equal(t, session.ReadOutputIn{CommandID: "c", Stream: "stdout", MaxBytes: 32768}, out)

	// Filled in once, arguments stay what they are: a repeat has the same digest.
	for _, in := range arguments() {
		_ = session.Validate(in)
		before, err := session.Digest("x", in)
		require.NoError(t, err)
		_ = session.Validate(in)
		after, err := session.Digest("x", in)
		require.NoError(t, err)
		require.Equal(t, before, after, "%T", in)
	}
}

func TestRefused(t *testing.T) {
	text := func(s string) *string { return &s }
	number := func(n int) *int { return &n }
	long := strings.Repeat("x", 256<<10+1)
	for name, row := range map[string]struct {
		in   any
		want string
	}{
		"no command":        {&session.RunCommandIn{}, "command: must not be empty"},
		"long command":      {&session.RunCommandIn{Command: long}, "command: 262145 bytes; at most 262144 are taken"},
		"NUL":               {&session.RunCommandIn{Command: "a\x00"}, "command: must not contain a NUL character"},
		"not UTF-8":         {&session.RunCommandIn{Command: "a\xff"}, "command: not valid UTF-8"},
		"long stdin":        {&session.RunCommandIn{Command: "x", Stdin: text(long)}, "stdin: 262145 bytes; at most 262144 are taken"},
		"timeout 0":         {&session.RunCommandIn{Command: "x", TimeoutSeconds: number(0)}, "timeout_seconds: 0 is below the minimum of 1"},
		"timeout":           {&session.RunCommandIn{Command: "x", TimeoutSeconds: number(86401)}, "timeout_seconds: 86401 is above the maximum of 86400"},
		"wait":              {&session.RunCommandIn{Command: "x", WaitSeconds: number(51)}, "wait_seconds: 51 is above the maximum of 50"},
		"env name":          {&session.RunCommandIn{Command: "x", Env: map[string]string{"A-B": ""}}, `env: "A-B" is no variable name; use letters, digits and _`},
		"env value":         {&session.RunCommandIn{Command: "x", Env: map[string]string{"A": "\x00"}}, "env.A: must not contain a NUL character"},
		"env size":          {&session.RunCommandIn{Command: "x", Env: map[string]string{"A": strings.Repeat("x", 64<<10)}}, "env: 65539 bytes in all; at most 65536 fit, put larger values into a file"},
		"stream":            {&session.ReadOutputIn{CommandID: "c", Stream: "both"}, `stream: "both" is not one of stdout, stderr`},
		"no command ID":     {&session.ReadOutputIn{}, "command_id: must not be empty"},
		"nothing to send":   {&session.SendInputIn{CommandID: "c"}, "data: give data to write, or close: true to end the input"},
		"no base64":         {&session.SendInputIn{CommandID: "c", Data: "%", Encoding: session.Base64}, "data: not valid base64 (standard alphabet, padded)"},
		"signal":            {&session.StopCommandIn{CommandID: "c", Signal: "SIGTERM"}, `signal: "SIGTERM" is not one of TERM, KILL, INT, HUP, QUIT, USR1, USR2, CONT, STOP, WINCH`},
		"no path":           {&session.ReadFileIn{}, "path: must not be empty"},
		"limit":             {&session.ReadFileIn{Path: "f", Limit: -1}, "limit: -1 is below the minimum of 1"},
		"mode":              {&session.WriteFileIn{Path: "f", Mode: "rwx"}, `mode: "rwx" is not three octal digits such as 0644`},
		"sha":               {&session.WriteFileIn{Path: "f", ExpectedSHA256: "abc"}, "expected_sha256: want 64 lower-case hex digits, as read_file gives them"},
		"content":           {&session.WriteFileIn{Path: "f", Content: long}, "content: 262145 bytes; at most 262144 go in one call: write the first part, then the rest with append: true"},
		"nothing to change": {&session.EditFileIn{Path: "f", OldStr: "a", NewStr: "a"}, "new_str: it equals old_str, so there is nothing to change"},
		"no old text":       {&session.EditFileIn{Path: "f", NewStr: "a"}, "old_str: must not be empty"},
		"image and fork":    {&session.StartSessionIn{Image: "a", SnapshotID: "b"}, "snapshot_id: give image or snapshot_id, not both"},
		"image":             {&session.StartSessionIn{Image: "a b"}, `image: "a b" is no image reference such as debian:bookworm-slim`},
		"snapshot":          {&session.StartSessionIn{SnapshotID: "b"}, `no snapshot "b"; list_snapshots shows yours`},
		"name":              {&session.StartSessionIn{Name: "a\nb"}, "name: must not contain control characters"},
		"network":           {&session.StartSessionIn{Network: "host"}, `network: "host" is not one of none, full`},
		"cpus":              {&session.StartSessionIn{CPUs: 0.01}, "cpus: 0.01 is below the minimum of 0.05"},
		"memory":            {&session.StartSessionIn{MemoryMB: 15}, "memory_mb: 15 is below the minimum of 16"},
		"snapshot name":     {&session.SnapshotIn{Name: strings.Repeat("x", 129)}, "name: 129 bytes; at most 128 are taken"},
	} {
		t.Run(name, func(t *testing.T) {
			err := session.Validate(row.in)
			want := session.InvalidArgument
			if strings.HasPrefix(row.want, "no snapshot") {
				want = session.NotFound
			}
			require.Equal(t, want, session.CodeOf(err))
			require.ErrorContains(t, err, string(want)+": "+row.want)
		})
	}
}

func TestTaken(t *testing.T) {
	for name, in := range map[string]any{
		"base64 at the limit": &session.WriteFileIn{Path: "f", Content: strings.Repeat("AAAA", 256<<10/3), Encoding: session.Base64},
		"mode":                &session.WriteFileIn{Path: "f", Mode: "0755"},
		"short mode":          &session.WriteFileIn{Path: "f", Mode: "755"},
		"empty new text":      &session.EditFileIn{Path: "f", OldStr: "a"},
		"close alone":         &session.SendInputIn{CommandID: "c", Close: true},
		"image":               &session.StartSessionIn{Image: "registry.example:5000/a/b:1@sha256:00"},
	} {
		t.Run(name, func(t *testing.T) { require.NoError(t, session.Validate(in)) })
	}
}
