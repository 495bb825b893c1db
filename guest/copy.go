package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
)

// ProtocolCopy is the first protocol with the requests in this file.
const ProtocolCopy = 2

// The paths of copies. PathMissing and PathCopyIn are as all others. PathStage
// takes frames of package filetree as its body, PathCopyOut answers with them.
const (
	PathMissing = "/v1/missing"
	PathStage   = "/v1/stage"
	PathCopyIn  = "/v1/copy_in"
	PathCopyOut = "/v1/copy_out"
)

// MaxMissing is how many digests one MissingRequest may have.
const MaxMissing = 4096

// MissingRequest asks which contents are not staged.
type MissingRequest struct {
	Digests []string `json:"digests"`
}

// MissingResult answers it.
type MissingResult struct {
	Missing []string `json:"missing,omitempty"`
}

// StageResult says what a stream staged.
type StageResult struct {
	Blobs int   `json:"blobs"`
	Bytes int64 `json:"bytes"`
}

// CopyInRequest makes the tree of a manifest that is staged, with the contents
// that are, as the sandbox user. Journalled.
type CopyInRequest struct {
	CallID string `json:"call_id"`
	// Path is the destination (filetree.Apply); empty is the working directory.
	Path string `json:"path"`
	// Manifest is the digest of the manifest.
	Manifest   string `json:"manifest"`
	ArgsDigest string `json:"args_digest"`
}

// CopyInResult says what was made.
type CopyInResult struct {
	// Path is where the tree's root is, absolute.
	Path string `json:"path"`
	filetree.Counts
}

// CopyOutRequest reads a tree as the sandbox user.
type CopyOutRequest struct {
	// Path is the source (filetree.FindSource); empty is the working directory.
	Path string `json:"path"`
}

// Missing implements API.
func (c *Client) Missing(ctx context.Context, req MissingRequest) (MissingResult, error) {
	if _, err := c.copying(ctx); err != nil {
		return MissingResult{}, err
	}
	return call[MissingResult](ctx, c, PathMissing, req)
}

// CopyIn implements API.
func (c *Client) CopyIn(ctx context.Context, req CopyInRequest) (CopyInResult, error) {
	if _, err := c.copying(ctx); err != nil {
		return CopyInResult{}, err
	}
	return call[CopyInResult](ctx, c, PathCopyIn, req)
}

// Stage implements API. It is not sent again when its stream dies: body is used
// up by then.
func (c *Client) Stage(ctx context.Context, body io.Reader) (out StageResult, err error) {
	conn, err := c.copying(ctx)
	if err != nil {
		return out, err
	}
	resp, err := c.begin(ctx, conn, PathStage, "application/octet-stream", body)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return out, unreachable(ctx, PathStage, err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("%w: %s: %w: %w", ErrUnreachable, PathStage, errStrange, err)
	}
	return out, nil
}

// CopyOut implements API.
func (c *Client) CopyOut(ctx context.Context, req CopyOutRequest) (io.ReadCloser, error) {
	conn, err := c.copying(ctx)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	resp, err := c.begin(ctx, conn, PathCopyOut, "application/json", bytes.NewReader(body)) //nolint:bodyclose // answerBody does
	if err != nil {
		return nil, err
	}
	return &answerBody{ctx: ctx, body: resp.Body}, nil
}

// answerBody gives errors of a stream the form that they have elsewhere.
type answerBody struct {
	ctx  context.Context //nolint:containedctx // of one request
	body io.ReadCloser
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unreachable(b.ctx, PathCopyOut, err)
	}
	return n, err
}

func (b *answerBody) Close() error { return b.body.Close() }

// copying connects to a guest that knows copies.
func (c *Client) copying(ctx context.Context) (*conn, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	if conn.hello.Protocol < ProtocolCopy {
		return nil, Errorf(CodePrecondition, "this sandbox's guest is older than cp: restore a snapshot in its session, which brings a new guest, or start a new session")
	}
	return conn, nil
}

// begin sends a request whose body or answer is a stream. An answer is a good
// one; the caller closes its body.
func (c *Client) begin(ctx context.Context, conn *conn, path, contentType string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", contentType)
	c.fenceIn(req)
	resp, err := conn.http.RoundTrip(req)
	if err != nil {
		if ctx.Err() == nil {
			c.drop(conn)
		}
		return nil, unreachable(ctx, path, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	gerr := &Error{}
	if err == nil && resp.StatusCode == http.StatusBadRequest && json.Unmarshal(data, gerr) == nil && gerr.Code != "" {
		return nil, gerr
	}
	return nil, fmt.Errorf("%w: %s: %w: status %d", ErrUnreachable, path, errStrange, resp.StatusCode)
}

func (c *Client) fenceIn(req *http.Request) {
	req.Header.Set(HeaderSession, c.fence.Session)
	req.Header.Set(HeaderIncarnation, strconv.Itoa(c.fence.Incarnation))
}
