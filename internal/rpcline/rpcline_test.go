package rpcline_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/rpcline"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]struct {
		id, method        string
		request, response bool
	}{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                      {"1", "ping", true, false},
		`{"id":9007199254740993,"method":"x"}`:                          {"9007199254740993", "x", true, false},
		`{"id":"1","method":"x"}`:                                       {`"1"`, "x", true, false},
		` {"method":"notifications/initialized"} `:                      {"", "notifications/initialized", false, false},
		`{"id":null,"method":"x"}`:                                      {"", "x", false, false},
		`{"id":1,"result":{}}`:                                          {"1", "", false, true},
		`{"method":"notifications/cancelled","params":{"requestId":7}}`: {"", "notifications/cancelled", false, false},
	} {
		m, err := rpcline.Parse([]byte(line))
		require.NoError(t, err, line)
		require.Equal(t, want.id, string(m.ID), line)
		require.Equal(t, want.method, m.Method, line)
		require.Equal(t, want.request, m.IsRequest(), line)
		require.Equal(t, want.response, m.IsResponse(), line)
	}
	for _, line := range []string{"", "hello", "[]", `[{"id":1,"method":"x"}]`, "1", "null", `{"id":1`, `{"method":1}`} {
		_, err := rpcline.Parse([]byte(line))
		require.ErrorIs(t, err, rpcline.ErrNoMessage, line)
	}
}

func TestCancelled(t *testing.T) {
	for line, want := range map[string]string{
		`{"method":"notifications/cancelled","params":{"requestId":"a"}}`: `"a"`,
		`{"method":"notifications/cancelled","params":{"requestId":12}}`:  "12",
		`{"method":"notifications/cancelled"}`:                            "",
	} {
		m, err := rpcline.Parse([]byte(line))
		require.NoError(t, err)
		id, ok := m.Cancelled()
		require.True(t, ok)
		require.Equal(t, want, string(id), line)
	}
	_, ok := rpcline.Message{Method: "notifications/progress"}.Cancelled()
	require.False(t, ok)
}

func TestFailure(t *testing.T) {
	require.JSONEq(t, `{"jsonrpc":"2.0","id":"a","error":{"code":-32001,"message":"no\nway"}}`,
		string(rpcline.Failure(json.RawMessage(`"a"`), rpcline.ServerBusy, "no\nway", nil)))
	require.JSONEq(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m","data":{"k":1}}}`,
		string(rpcline.Failure(nil, rpcline.ParseError, "m", map[string]int{"k": 1})))
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 200_000) // more than the buffer
	for name, r := range map[string]io.Reader{
		"at once":   strings.NewReader("one\n\r\n\ntwo\r\n" + long + "\nlast"),
		"in pieces": iotest.OneByteReader(strings.NewReader("one\n\r\n\ntwo\r\n" + long + "\nlast")),
	} {
		t.Run(name, func(t *testing.T) {
			in := rpcline.NewReader(r, 0)
			for _, want := range []string{"one", "two", long, "last"} {
				line, err := in.Next()
				require.NoError(t, err)
				require.Equal(t, want, string(line))
			}
			_, err := in.Next()
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

// A line over the limit is told with the request's ID, wherever it stands in the
// message, and the next line is read.
func TestTooLong(t *testing.T) {
	big := `{"content":"` + strings.Repeat(`\" {[,:id`, 100_000) + `","id":7,"method":"no"}`
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + big + `}`:         "1",
		`{"method":"tools/call","params":` + big + `,"jsonrpc":"2.0","id" : "a,}" }`:  `"a,}"`,
		`{"params":[` + big + `],"id":9007199254740993,"method":"x"}`:                 "9007199254740993",
		`{"params":` + big + `,"id":1,"result":{}}`:                                   "", // an answer
		`{"params":` + big + `,"method":"notifications/x"}`:                           "",
		`{"params":` + big + `,"id":{"a":1},"method":"x"}`:                            "",
		`{"params":` + big + `,"id":"` + strings.Repeat("i", 300) + `","method":"x"}`: "",
		strings.Repeat("}", 300_000):                                                  "",
	} {
		in := rpcline.NewReader(strings.NewReader(line+"\nnext\n"), 100_000)
		_, err := in.Next()
		tooLong, ok := errors.AsType[*rpcline.TooLongError](err)
		require.True(t, ok, err)
		require.Equal(t, want, string(tooLong.ID), line[:40])
		require.Contains(t, tooLong.Error(), "over 100000 bytes")
		next, err := in.Next()
		require.NoError(t, err)
		require.Equal(t, "next", string(next))
	}
	// The limit itself is taken.
	in := rpcline.NewReader(strings.NewReader(strings.Repeat("x", 100)+"\n"+strings.Repeat("y", 101)+"\n"), 100)
	line, err := in.Next()
	require.NoError(t, err)
	require.Len(t, line, 100)
	_, err = in.Next()
	require.Error(t, err)
}

func FuzzScanner(f *testing.F) {
	f.Add(`{"id":1,"method":"x","params":{"a":[1,"}"]}}`)
	f.Fuzz(func(_ *testing.T, text string) {
		in := rpcline.NewReader(strings.NewReader(text+"\nend"), 1)
		for {
			if _, err := in.Next(); errors.Is(err, io.EOF) {
				return
			}
		}
	})
}
