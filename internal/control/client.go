package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Client asks the server of a data dir.
type Client struct {
	dir  string
	http *http.Client
}

// NewClient makes a Client. It holds no connection between two requests.
func NewClient(dataDir string) *Client {
	return &Client{dir: dataDir, http: &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, dataDir) },
		DisableKeepAlives: true,
	}}}
}

// errEnding is the answer of a server that ends.
var errEnding = errors.New("the server ends")

// NotRunning tells from an error that nobody listens on the socket, or that it
// ends just now.
func NotRunning(err error) bool {
	return errors.Is(err, errEnding) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOTDIR) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Hello asks who is there.
func (c *Client) Hello(ctx context.Context) (h Hello, err error) {
	return h, c.ask(ctx, http.MethodGet, "/v1/hello", nil, &h)
}

// Shutdown asks the server to end, and returns when it has heard it. reason is
// for its log.
func (c *Client) Shutdown(ctx context.Context, reason string) error {
	return c.ask(ctx, http.MethodPost, "/v1/shutdown?reason="+url.QueryEscape(reason), nil, nil)
}

// Session has the default session of a connection started or found. Errors of
// the session are *session.Error.
func (c *Client) Session(ctx context.Context, a Attach) (out SessionReply, err error) {
	return out, c.ask(ctx, http.MethodPost, "/v1/stdio-session", a, &out)
}

func (c *Client) ask(ctx context.Context, method, path string, in, out any) error {
	req, err := request(ctx, method, path, in)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return refused(resp)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	return nil
}

// Stdio opens a stream of JSON-RPC lines. ctx bounds the opening only.
func (c *Client) Stdio(ctx context.Context, a Attach) (io.ReadWriteCloser, error) {
	conn, err := dial(ctx, c.dir)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	stream, err := open(ctx, conn, a)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return stream, nil
}

func open(ctx context.Context, conn net.Conn, a Attach) (io.ReadWriteCloser, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	req, err := request(ctx, http.MethodPost, "/v1/stdio", a)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", upgrade)
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("open a stream: %w", err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, fmt.Errorf("open a stream: %w", err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer func() { _ = resp.Body.Close() }()
		return nil, refused(resp)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return &bufferedConn{Conn: conn, r: r}, nil
}

func request(ctx context.Context, method, path string, in any) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	return http.NewRequestWithContext(ctx, method, "http://mcp-sandbox"+path, body)
}

// refused reads an error answer.
func refused(resp *http.Response) error {
	if resp.StatusCode == http.StatusServiceUnavailable {
		return errEnding
	}
	var p problem
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&p); err != nil {
		return fmt.Errorf("the server answers %s", resp.Status)
	}
	if resp.StatusCode == http.StatusConflict {
		return session.Errorf(p.Code, "%s", p.Message)
	}
	return fmt.Errorf("the server answers %s: %s", resp.Status, p.Message)
}

// bufferedConn reads first what was read ahead.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }
