package supervisor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// post sends raw HTTP, as no Client would.
func post(t *testing.T, h *host, path, incarnation, body string) (int, guest.Error) {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: &protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", h.path)
		},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://guest"+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set(guest.HeaderSession, fence.Session)
	req.Header.Set(guest.HeaderIncarnation, incarnation)
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var gerr guest.Error
	if resp.StatusCode == http.StatusBadRequest {
		require.NoError(t, json.Unmarshal(data, &gerr), "%s", data)
	}
	return resp.StatusCode, gerr
}

func TestRequestsAreChecked(t *testing.T) {
	h := serve(t, options(t), fence)
	for name, c := range map[string]struct {
		path, incarnation, body string
		code                    guest.Code
	}{
		"other incarnation": {guest.PathUsage, "2", "{}", guest.CodeFenced},
		"no incarnation":    {guest.PathRun, "", "{}", guest.CodeFenced},
		"no JSON":           {guest.PathRun, "1", "run", guest.CodeInvalid},
		"wrong type":        {guest.PathRun, "1", `{"command":7}`, guest.CodeInvalid},
		"too much":          {guest.PathRun, "1", `{"command":"` + string(bytes.Repeat([]byte("x"), guest.MaxBody)) + `"}`, guest.CodeInvalid},
		"newer protocol":    {guest.PathHello, "1", `{"min_protocol":99,"max_protocol":99}`, guest.CodeInvalid},
		"older protocol":    {guest.PathHello, "1", `{"min_protocol":0,"max_protocol":0}`, guest.CodeInvalid},
		"no such stream":    {guest.PathOutput, "1", `{"call_id":"none","stream":"x"}`, guest.CodeNotFound},
	} {
		status, gerr := post(t, h, c.path, c.incarnation, c.body)
		require.Equal(t, http.StatusBadRequest, status, name)
		require.Equal(t, c.code, gerr.Code, name)
	}
	status, _ := post(t, h, "/v1/other", "1", "{}")
	require.Equal(t, http.StatusNotFound, status)
	status, _ = post(t, h, guest.PathHello, "1", `{"min_protocol":1,"max_protocol":99}`)
	require.Equal(t, http.StatusOK, status)
}

func TestSocketIsForOneUser(t *testing.T) {
	opts := options(t)
	opts.PeerUID = uint32(os.Getuid()) + 1
	h := serve(t, opts, fence)
	_, err := h.Usage(t.Context())
	require.ErrorIs(t, err, guest.ErrUnreachable)
	info, err := os.Stat(h.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(opts.State, "journal"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// silent is a stream that can stop to carry anything, without an error.
type silent struct {
	net.Conn
	mu     sync.Mutex
	closed chan struct{}
	stuck  bool
}

func (s *silent) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.mu.Lock()
	stuck := s.stuck
	s.mu.Unlock()
	if stuck {
		<-s.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (s *silent) Close() error {
	close(s.closed)
	return s.Conn.Close()
}

func TestSilentStreamIsReplaced(t *testing.T) {
	h := serve(t, options(t), fence)
	var first *silent
	c := guest.NewClient(func(ctx context.Context) (io.ReadWriteCloser, error) {
		conn, err := h.dial(ctx)
		if err != nil || first != nil {
			return conn, err
		}
		first = &silent{Conn: conn.(net.Conn), closed: make(chan struct{})}
		return first, nil
	}, fence, guest.ClientOptions{PingAfter: 50 * time.Millisecond, PingTimeout: 50 * time.Millisecond})
	defer func() { require.NoError(t, c.Close()) }()
	require.Equal(t, "x\n", sh(t, c, "echo x >> log; cat log"))
	first.mu.Lock()
	first.stuck = true
	first.mu.Unlock()
	require.Equal(t, "x\nx\n", sh(t, c, "echo x >> log; cat log"), "sent twice, done once")
	require.Equal(t, 2, h.dials())
}
