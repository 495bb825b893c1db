package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

const replacement = "\uFFFD"

func b4Characters(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	whole := strings.Repeat("日", 100_000)
	command := ""
	for _, most := range []int{2, 3, 4, 5, 6, 7, 1000, 1001, 1002, 32768, 262143, 262144} {
		r := c.Run(t, id, `yes 日 | head -n 100000 | tr -d '\n'`, harness.Args{"max_output_bytes": most})
		require.Equal(t, "utf-8", r.Str("encoding"), most)
		require.NotContains(t, r.Text, replacement, most)
		require.NotContains(t, r.Str("stdout"), replacement, most)
		require.Equal(t, len(whole), r.Num("stdout_bytes"))
		command = r.Str("command_id")
	}
	slice := func(offset, most int) harness.Result {
		r := c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": command, "offset": offset, "max_bytes": most})
		from, next := r.Num("offset"), r.Num("next_offset")
		require.Equal(t, whole[from:next], r.Str("data"), "offset %d, at most %d", offset, most)
		require.Equal(t, "utf-8", r.Str("encoding"))
		require.NotContains(t, r.Text, replacement)
		return r
	}
	for _, offset := range []int{0, 1, 2, 3, 4, 100, 101, 102, 299_996, 299_997, 299_998, 299_999, 300_000, -1, -2, -3, -4, -100, -299_999} {
		for _, most := range []int{4, 5, 6, 7, 1000} {
			slice(offset, most)
		}
	}
	for _, most := range []int{32768, 100_000, 262_144} { // from end to end: nothing lost, nothing twice
		got := ""
		for len(got) < len(whole) {
			r := slice(len(got), most)
			require.Equal(t, len(got), r.Num("offset"))
			got += r.Str("data")
		}
		require.Equal(t, whole, got)
	}
}

func b6Latin(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	r := c.Run(t, id, `printf 'caf\xe9 \x96\n'`)
	require.True(t, json.Valid(r.Raw))
	require.Equal(t, 0, r.Num("exit_code"))
	require.Equal(t, "utf-8-lossy", r.Str("encoding"))
	require.Equal(t, "caf"+replacement+" "+replacement+"\n", r.Str("stdout"))
	require.Contains(t, r.Text, "base64", "how to get the bytes")
	require.Equal(t, "caf\xe9 \x96\n", rawOutput(t, c, id, r, 262144))

	// In slices, too. 0xe9 may begin a character: it waits for what follows.
	require.Equal(t, "caf\xe9 \x96\n", rawOutput(t, c, id, r, 4))
	for offset, want := range []string{"caf", "af" + replacement + " ", "f" + replacement + " " + replacement, replacement + " " + replacement + "\n"} {
		o := c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": r.Str("command_id"), "offset": offset, "max_bytes": 4})
		require.Equal(t, want, o.Str("data"))
		require.Equal(t, offset+len([]rune(want)), o.Num("next_offset"))
	}
}

func b6Random(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	r := c.Run(t, id, "head -c 300000 /dev/urandom | tee copy")
	require.True(t, json.Valid(r.Raw))
	require.Equal(t, 0, r.Num("exit_code"))
	require.Equal(t, 300_000, r.Num("stdout_bytes"))
	require.Equal(t, true, r.Structured["truncated"])
	require.Equal(t, "base64", r.Str("encoding"))
	raw := rawOutput(t, c, id, r, 100_000)
	head, err := base64.StdEncoding.DecodeString(r.Str("stdout"))
	require.NoError(t, err)
	require.Equal(t, raw[:len(head)], string(head))
	// The sandbox has them as it wrote them.
	sum := c.Run(t, id, "sha256sum <copy").Str("stdout")
	again := c.Run(t, id, "base64 -d | sha256sum", harness.Args{"stdin": base64.StdEncoding.EncodeToString([]byte(raw[:150_000]))})
	require.Equal(t, c.Run(t, id, "head -c 150000 copy | sha256sum").Str("stdout"), again.Str("stdout"))
	c.OK(t, "write_file", harness.Args{"session_id": id, "path": "read", "content": base64.StdEncoding.EncodeToString([]byte(raw[:150_000])), "encoding": "base64"})
	c.OK(t, "write_file", harness.Args{"session_id": id, "path": "read", "content": base64.StdEncoding.EncodeToString([]byte(raw[150_000:])), "encoding": "base64", "append": true})
	require.Equal(t, sum, c.Run(t, id, "sha256sum <read").Str("stdout"))
}

// rawOutput reads the exact bytes of a command's stdout.
func rawOutput(t *testing.T, c *harness.Client, sessionID string, r harness.Result, most int) string {
	t.Helper()
	var raw []byte
	for {
		o := c.OK(t, "read_output", harness.Args{
			"session_id": sessionID, "command_id": r.Str("command_id"), "offset": len(raw), "max_bytes": most, "encoding": "base64",
		})
		require.Equal(t, "base64", o.Str("encoding"))
		b, err := base64.StdEncoding.DecodeString(o.Str("data"))
		require.NoError(t, err)
		raw = append(raw, b...)
		require.Equal(t, len(raw), o.Num("next_offset"))
		if o.Structured["eof"] == true {
			return string(raw)
		}
	}
}
