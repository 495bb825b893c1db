//go:build linux

package files_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
)

func serve(t *testing.T, in string) files.Response {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, files.Serve(strings.NewReader(in), &out))
	var res files.Response
	require.NoError(t, json.Unmarshal(out.Bytes(), &res))
	return res
}

func TestServe(t *testing.T) {
	dir := t.TempDir()
	send := func(req files.Request) files.Response {
		req.Home = dir
		in, err := json.Marshal(req)
		require.NoError(t, err)
		return serve(t, string(in))
	}
	res := send(files.Request{Op: files.OpWrite, Write: &guest.WriteFileRequest{Path: "f", Content: []byte("a\x00b")}})
	require.Equal(t, files.Response{Write: &guest.WriteResult{Path: filepath.Join(dir, "f"), Size: 3, SHA256: sum("a\x00b"), Created: true}}, res)

	res = send(files.Request{Op: files.OpEdit, Edit: &guest.EditFileRequest{Path: "f", OldStr: "b", NewStr: "c"}})
	require.Nil(t, res.Error)
	require.Equal(t, 1, res.Edit.Replacements)

	res = send(files.Request{Op: files.OpRead, Read: &guest.ReadFileRequest{Path: "f"}})
	require.Nil(t, res.Error)
	require.Equal(t, "a\x00c", string(res.Read.Content))

	res = send(files.Request{Op: files.OpRead, Read: &guest.ReadFileRequest{Path: "g"}})
	require.Nil(t, res.Read)
	require.Equal(t, guest.CodeNotFound, res.Error.Code)
}

func TestServeCarriesTheLargestRequests(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "f"), strings.Repeat("\x01", guest.MaxInline), 0o644)
	in, err := json.Marshal(files.Request{Op: files.OpEdit, Home: dir, Edit: &guest.EditFileRequest{
		Path: "f", OldStr: strings.Repeat("\x01", guest.MaxInline), NewStr: strings.Repeat("\x02", guest.MaxInline),
	}})
	require.NoError(t, err)
	require.Nil(t, serve(t, string(in)).Error)
}

func TestServeMalformed(t *testing.T) {
	for _, in := range []string{"", "{", `{"op":"read_file"}`, `{"op":"remove","read":{"path":"f"}}`, strings.Repeat(" ", 5<<20) + "{}"} {
		res := serve(t, in)
		require.NotNil(t, res.Error, in)
		require.Equal(t, guest.CodeInvalid, res.Error.Code)
	}
}

func TestServeCannotAnswer(t *testing.T) {
	require.Error(t, files.Serve(strings.NewReader("{}"), brokenPipe{}))
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }
