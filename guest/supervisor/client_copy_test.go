package supervisor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
)

func TestCopiesOverAStream(t *testing.T) {
	h := serve(t, options(t), fence)
	p := pack(t, "a", strings.Repeat("b", 200))
	stage(t, h, p)
	res, err := h.CopyIn(t.Context(), p.request())
	require.NoError(t, err)
	require.Equal(t, 2, res.Files)
	r, err := h.CopyOut(t.Context(), guest.CopyOutRequest{Path: "tree"})
	require.NoError(t, err)
	_, entries, blobs, fail := readTree(t, r)
	require.Nil(t, fail)
	require.Len(t, entries, 4)
	require.Equal(t, "a", blobs[entries["a"].SHA256])

	_, err = h.Stage(t.Context(), bytes.NewReader(stream(t, map[string]string{digestOf("a"): "b"})))
	require.Equal(t, guest.CodeInvalid, guest.CodeOf(err), "%v", err)
	_, err = h.Stage(t.Context(), strings.NewReader("B"))
	require.ErrorIs(t, err, guest.ErrUnreachable)
	require.Equal(t, "ok\n", sh(t, h, "echo ok"), "the stream lives on")

	stranger := guest.NewClient(h.dial, guest.Fence{Session: fence.Session, Incarnation: 2}, guest.ClientOptions{})
	defer func() { _ = stranger.Close() }()
	_, err = stranger.CopyOut(t.Context(), guest.CopyOutRequest{})
	require.Equal(t, guest.CodeFenced, guest.CodeOf(err), "%v", err)
}

// A large tree that nobody reads any more must not hold up other calls.
func TestCopyOutGivenUp(t *testing.T) {
	h := serve(t, options(t), fence)
	sh(t, h, "head -c 20000000 /dev/zero > big")
	ctx, cancel := context.WithCancel(t.Context())
	r, err := h.CopyOut(ctx, guest.CopyOutRequest{Path: "big"})
	require.NoError(t, err)
	kind, _, err := filetree.NewFrameReader(r).Next()
	require.NoError(t, err)
	require.Equal(t, filetree.FrameHeader, kind)
	require.Equal(t, "ok\n", sh(t, h, "echo ok"))
	cancel()
	_, err = io.Copy(io.Discard, r)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, r.Close())
	require.Equal(t, "ok\n", sh(t, h, "echo ok"))
}

// A container keeps the guest that it was started with.
func TestOlderGuest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	old := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != guest.PathHello {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(guest.Hello{Protocol: 1})
	})}
	served := make(chan error, 1)
	go func() { served <- old.Serve(l) }()
	c := guest.NewClient(func(context.Context) (io.ReadWriteCloser, error) { return net.Dial("unix", path) }, fence, guest.ClientOptions{})
	t.Cleanup(func() {
		_ = c.Close()
		_ = old.Close()
		<-served
	})
	_, err = c.CopyIn(t.Context(), guest.CopyInRequest{})
	require.Equal(t, guest.CodePrecondition, guest.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "older than cp: restore a snapshot in its session")
	_, err = c.CopyOut(t.Context(), guest.CopyOutRequest{})
	require.Equal(t, guest.CodePrecondition, guest.CodeOf(err))
	_, err = c.Stage(t.Context(), nil)
	require.Equal(t, guest.CodePrecondition, guest.CodeOf(err))
	_, err = c.Missing(t.Context(), guest.MissingRequest{})
	require.Equal(t, guest.CodePrecondition, guest.CodeOf(err))
}
