package activities_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// cutStream is what a guest gives of data: head and tail of at most n bytes each.
func cutStream(data string, n int) guest.Stream {
	total := int64(len(data))
	if len(data) <= 2*n {
		return guest.Stream{Head: []byte(data), Total: total, Logged: total}
	}
	return guest.Stream{Head: []byte(data[:n]), Tail: []byte(data[len(data)-n:]), Total: total, Logged: total}
}

func shape(stdout guest.Stream) session.RunCommandOut {
	return activities.CommandOut(guest.Command{Status: guest.StatusExited, Stdout: stdout}, 2048)
}

func TestShapedOutput(t *testing.T) {
	for name, row := range map[string]struct {
		stream         guest.Stream
		text, encoding string
	}{
		"empty":     {guest.Stream{}, "", session.UTF8},
		"text":      {cutStream("hällo\n", 100), "hällo\n", session.UTF8},
		"head+tail": {guest.Stream{Head: []byte("ab\xc3"), Tail: []byte("\xa4c"), Total: 5, Logged: 5}, "abäc", session.UTF8},
		"cut": {
			cutStream("one\ntwo\nthree\n", 4),
			"one\n[... 6 of 14 bytes left out; read_output stream=stdout offset=4 reads on ...]\nree\n", session.UTF8,
		},
		"cut in a line": {
			cutStream("0123456789", 2), "01\n[... 6 of 10 bytes left out; read_output stream=stdout offset=2 reads on ...]\n89", session.UTF8,
		},
		"cut in a character": {
			cutStream("aäbbbbbäb", 2), "a\n[... 9 of 11 bytes left out; read_output stream=stdout offset=1 reads on ...]\nb", session.UTF8,
		},
		"tail begins after the first of four bytes": {
			cutStream("a😀bbbb😀b", 4), "a\n[... 12 of 14 bytes left out; read_output stream=stdout offset=1 reads on ...]\nb", session.UTF8,
		},
		"latin-1":           {cutStream("caf\xe9 au lait", 100), "caf\uFFFD au lait", session.UTF8Lossy},
		"binary":            {cutStream("\x00\x01\xff\xfe", 100), "AAH//g==", session.Base64},
		"binary, cut":       {cutStream("\x00\xff\x00\xff\x00\xff", 2), "AP8=", session.Base64},
		"an own U+FFFD":     {cutStream("a\uFFFDb", 100), "a\uFFFDb", session.UTF8},
		"nothing but a cut": {guest.Stream{Total: 9, Logged: 9}, "[... 9 of 9 bytes left out; read_output stream=stdout offset=0 reads on ...]\n", session.UTF8},
	} {
		t.Run(name, func(t *testing.T) {
			out := shape(row.stream)
			require.Equal(t, row.encoding, out.Encoding)
			require.Equal(t, row.text, out.Stdout)
			require.Equal(t, row.stream.Total, out.StdoutBytes)
			require.Equal(t, row.stream.Cut(), out.Truncated)
		})
	}
}

func TestBinaryCutIsNoted(t *testing.T) {
	out := shape(cutStream("\x00\xff\x00\xff\x00\xff", 2))
	require.Equal(t, "The first 2 of 6 bytes of stdout are shown; read_output stream=stdout offset=2 encoding=base64 reads on.", out.Note)
}

func TestMemoryLimitIsNoted(t *testing.T) {
	out := activities.CommandOut(guest.Command{
		Status: guest.StatusExited, OOMKilled: true, OutputHeld: true, StartedUnixMS: 1000, EndedUnixMS: 1250,
		Stdout: guest.Stream{Head: []byte("x"), Total: 9, Logged: 1},
	}, 64)
	require.Contains(t, out.Note, "memory limit of 64 MiB")
	require.True(t, out.OutputHeld)
	require.Contains(t, out.Note, "Only the first 1 of 9 bytes of stdout are kept.")
	require.EqualValues(t, 250, out.DurationMS)
}

func TestChunks(t *testing.T) {
	for name, row := range map[string]struct {
		data, encoding string
		last           bool
		text, want     string
		used           int
	}{
		"text":              {"ab", "", false, "ab", session.UTF8, 2},
		"character waits":   {"aä"[:2], "", false, "a", session.UTF8, 1},
		"four bytes wait":   {"a😀"[:4], "", false, "a", session.UTF8, 1},
		"nothing follows":   {"aä"[:2], "", true, "a\uFFFD", session.UTF8Lossy, 2},
		"exact bytes":       {"aä"[:2], session.Base64, false, "YcM=", session.Base64, 2},
		"begins in the mid": {"\xa4b", "", false, "\uFFFDb", session.UTF8Lossy, 2},
		"nothing":           {"", "", true, "", session.UTF8, 0},
	} {
		t.Run(name, func(t *testing.T) {
			text, encoding, used := activities.ShapeChunk([]byte(row.data), row.encoding, row.last)
			require.Equal(t, row.text, text)
			require.Equal(t, row.want, encoding)
			require.Equal(t, row.used, used)
		})
	}
}

// What a cut makes of valid text is valid text: no U+FFFD that was not there.
func FuzzCutText(f *testing.F) {
	for _, s := range []string{"", "abc", "äöü", "a😀b😀c", "日本語のテキスト", "\uFFFDx", "<>&\u2028\x01"} {
		for n := range 6 {
			f.Add(s, n)
		}
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		if !utf8.ValidString(text) || n < 0 || n > len(text) {
			return
		}
		s := cutStream(text, n)
		out := shape(s)
		if out.Encoding != session.UTF8 {
			raw, err := base64.StdEncoding.DecodeString(out.Stdout)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(text, string(raw)))
			return
		}
		require.LessOrEqual(t, strings.Count(out.Stdout, "\uFFFD"), strings.Count(text, "\uFFFD"))
		var whole []byte
		for rest := []byte(text); len(rest) > 0; {
			chunk := rest[:min(len(rest), max(n, utf8.UTFMax))]
			part, encoding, used := activities.ShapeChunk(chunk, "", len(chunk) == len(rest))
			require.Equal(t, session.UTF8, encoding)
			require.Positive(t, used)
			whole, rest = append(whole, part...), rest[used:]
		}
		require.True(t, bytes.Equal([]byte(text), whole))
	})
}
