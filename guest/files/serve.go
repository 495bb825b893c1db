//go:build linux

package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// The values of Request.Op; each needs the field of the same name.
const (
	OpRead  = "read_file"
	OpWrite = "write_file"
	OpEdit  = "edit_file"
	// OpCopyIn is followed by the frames of a tree, OpCopyOut is answered with
	// them and with no Response.
	OpCopyIn  = "copy_in"
	OpCopyOut = "copy_out"
)

// maxRequest bounds the JSON of a request: MaxInline of content in base64, or
// twice MaxInline of text in an edit with every byte escaped to six.
const maxRequest = 4 << 20

// Request is one file operation.
type Request struct {
	Op    string                  `json:"op"`
	Read  *guest.ReadFileRequest  `json:"read,omitempty"`
	Write *guest.WriteFileRequest `json:"write,omitempty"`
	Edit  *guest.EditFileRequest  `json:"edit,omitempty"`

	CopyIn  *guest.CopyInRequest  `json:"copy_in,omitempty"`
	CopyOut *guest.CopyOutRequest `json:"copy_out,omitempty"`
	// Home is the absolute directory that relative paths start from.
	Home string `json:"home"`
}

// Response answers a Request: the result of its operation, or Error.
type Response struct {
	Read  *guest.File        `json:"read,omitempty"`
	Write *guest.WriteResult `json:"write,omitempty"`
	Edit  *guest.EditResult  `json:"edit,omitempty"`

	CopyIn *guest.CopyInResult `json:"copy_in,omitempty"`

	Error *guest.Error `json:"error,omitempty"`
}

// Serve reads one Request from in, carries it out and writes its Response to
// out. A malformed request is answered with CodeInvalid; the error is for an
// out that cannot be written. It does not read past the request, apart from
// buffering, and closes neither.
func Serve(in io.Reader, out io.Writer) error {
	var req Request
	d := json.NewDecoder(io.LimitReader(in, maxRequest))
	if err := d.Decode(&req); err != nil {
		return answer(out, Response{Error: guest.Errorf(guest.CodeInvalid, "malformed file request: %v", err)})
	}
	switch {
	case req.Op == OpCopyIn && req.CopyIn != nil:
		res, err := copyIn(req.Home, *req.CopyIn, io.MultiReader(d.Buffered(), in))
		return answer(out, Response{CopyIn: orNil(res, err), Error: asGuest(err)})
	case req.Op == OpCopyOut && req.CopyOut != nil:
		return copyOut(req.Home, *req.CopyOut, out)
	}
	return answer(out, serve(req))
}

func answer(out io.Writer, res Response) error {
	if err := json.NewEncoder(out).Encode(res); err != nil {
		return fmt.Errorf("answering a file request: %w", err)
	}
	return nil
}

func serve(req Request) Response {
	switch {
	case req.Op == OpRead && req.Read != nil:
		res, err := Read(req.Home, *req.Read)
		return Response{Read: orNil(res, err), Error: asGuest(err)}
	case req.Op == OpWrite && req.Write != nil:
		res, err := Write(req.Home, *req.Write)
		return Response{Write: orNil(res, err), Error: asGuest(err)}
	case req.Op == OpEdit && req.Edit != nil:
		res, err := Edit(req.Home, *req.Edit)
		return Response{Edit: orNil(res, err), Error: asGuest(err)}
	default:
		return Response{Error: guest.Errorf(guest.CodeInvalid,
			"unknown file operation %q, or its arguments are missing", req.Op)}
	}
}

func orNil[T any](v T, err error) *T {
	if err != nil {
		return nil
	}
	return &v
}

func asGuest(err error) *guest.Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*guest.Error](err); ok {
		return e
	}
	return guest.Errorf(guest.CodeInternal, "%v", err)
}
