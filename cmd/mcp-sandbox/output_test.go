package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func TestTable(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, writeTable(&b, [][]string{
		{"ID", "STATUS", "NAME"},
		{"s_1", "running", "ünïcode name"},
		{"s_22", "", "x"},
	}))
	require.Equal(t, ""+
		"ID    STATUS   NAME\n"+
		"s_1   running  ünïcode name\n"+
		"s_22  -        x\n", b.String())
}

// Agents choose what stands in a cell; it must stay one, on a line of its own.
func TestCell(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "-",
		"plain":                  "plain",
		"two words":              "two words",
		"a\nb":                   `"a\nb"`,
		"\x1b[2Jgone":            `"\x1b[2Jgone"`,
		"tab\there":              `"tab\there"`,
		"\xff":                   `"\xff"`,
		"right\u202eleft":        `"right\u202eleft"`,
		strings.Repeat("ä", 200): strings.Repeat("ä", maxCell-3) + "...",
	} {
		require.Equal(t, want, cell(in))
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 8877968: "8.5 MiB", 2 << 30: "2.0 GiB", 3 << 50: "3072.0 TiB",
	} {
		require.Equal(t, want, sizeText(n))
	}
}

func TestShellWord(t *testing.T) {
	require.Equal(t, "/a/b-c.d", shellWord("/a/b-c.d"))
	require.Equal(t, "'/a b'", shellWord("/a b"))
	require.Equal(t, `'it'\''s'`, shellWord("it's"))
	require.Equal(t, "''", shellWord(""))
}

func TestForEach(t *testing.T) {
	outcomes := forEach([]string{"b", "a", "b", "c"}, func(id string) error {
		if id == "a" {
			return session.Errorf(session.NotFound, "no such thing")
		}
		return nil
	})
	require.Equal(t, []outcome{{id: "b"}, {id: "a", err: errors.New("no such thing")}, {id: "c"}}, outcomes)
	require.EqualError(t, failures(outcomes), "a: no such thing")
	require.NoError(t, failures(outcomes[:1]))
}

func TestJSONIsOneDocument(t *testing.T) {
	var b bytes.Buffer
	o := output{json: true}
	require.NoError(t, o.write(&b, sessionList{[]session.OwnedSession{}}, []string{"ID"}, nil))
	require.JSONEq(t, `{"sessions": []}`, b.String())
}
