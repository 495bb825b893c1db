package supervisor_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/supervisor"
)

// host dials a supervisor's socket and can cut its streams.
type host struct {
	*guest.Client
	path string

	mu    sync.Mutex
	conns []net.Conn
}

func serve(t *testing.T, opts supervisor.Options, f guest.Fence) *host {
	t.Helper()
	s, err := supervisor.New(opts)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	h := &host{path: filepath.Join(opts.State, supervisor.SocketName)}
	h.Client = guest.NewClient(h.dial, f, guest.ClientOptions{})
	t.Cleanup(func() {
		require.NoError(t, h.Close())
		require.NoError(t, s.Close())
		require.NoError(t, <-served)
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("unix", h.path)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, waitLimit, tick)
	return h
}

func (h *host) dial(context.Context) (io.ReadWriteCloser, error) {
	c, err := net.Dial("unix", h.path)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, c)
	return c, nil
}

func (h *host) dials() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

func (h *host) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.conns[len(h.conns)-1].Close()
}

func TestClientSpeaks(t *testing.T) {
	opts := options(t)
	opts.Version = func() string { return "v" }
	h := serve(t, opts, fence)
	hello, err := h.Hello(t.Context())
	require.NoError(t, err)
	require.Equal(t, "v", hello.Version)
	require.Equal(t, guest.ProtocolVersion, hello.Protocol)
	require.NotEmpty(t, hello.BootID)

	require.Equal(t, "hi\n", sh(t, h, "echo hi"))
	c := ready(t, h, "echo ready; cat")
	_, err = h.Input(t.Context(), guest.InputRequest{CallID: callID(), CommandID: c.CallID, Data: []byte{0xff, 0}})
	require.NoError(t, err)
	require.Equal(t, []byte{0xff, 0}, output(t, h, c.CallID, 6).Data)
	require.Equal(t, guest.StatusStopped, stop(t, h, c.CallID, "").Status)
	_, err = h.WriteFile(t.Context(), guest.WriteFileRequest{CallID: callID(), Path: "f", Content: make([]byte, guest.MaxInline)})
	require.NoError(t, err)
	_, err = h.EditFile(t.Context(), guest.EditFileRequest{CallID: callID(), Path: "f", OldStr: "x", NewStr: "y"})
	require.NotEmpty(t, guest.CodeOf(err))
	f, err := h.ReadFile(t.Context(), guest.ReadFileRequest{Path: "f", MaxBytes: guest.MaxInline})
	require.NoError(t, err)
	require.Len(t, f.Content, guest.MaxInline)
	_, err = h.Usage(t.Context())
	require.NoError(t, err)
	res, err := h.Refuse(t.Context(), guest.RefuseRequest{CallID: callID()})
	require.NoError(t, err)
	require.True(t, res.Refused)
	require.Equal(t, 1, h.dials(), "one stream for all")
}

func TestFence(t *testing.T) {
	h := serve(t, options(t), guest.Fence{Session: fence.Session, Incarnation: 2})
	_, err := h.Run(t.Context(), request("touch never"))
	require.Equal(t, guest.CodeFenced, guest.CodeOf(err))
	require.NotErrorIs(t, err, guest.ErrUnreachable)
}

func TestStreamCutInMidRun(t *testing.T) { // A14, C4
	h := serve(t, options(t), fence)
	var cut sync.WaitGroup
	req := request("echo x >> log; read y < gate; cat log; exit 7")
	sh(t, h, "mkfifo gate")
	cut.Go(func() {
		for !fileHas(t, h, "log") {
			continue
		}
		h.cut()
		sh(t, h, "echo go > gate")
	})
	c := run(t, h, req)
	cut.Wait()
	require.Equal(t, 7, *c.ExitCode)
	require.Equal(t, "x\n", string(c.Stdout.Head), "one line (G2)")
	require.Greater(t, h.dials(), 1)
}

func fileHas(t *testing.T, api guest.API, path string) bool {
	t.Helper()
	f, err := api.ReadFile(t.Context(), guest.ReadFileRequest{Path: path, MaxBytes: 100})
	return err == nil && f.Size > 0
}

func TestCancelledWaitLeavesTheCommand(t *testing.T) {
	h := serve(t, options(t), fence)
	req := request("echo ready; read x; echo done")
	req.KeepStdin = true
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := h.Run(ctx, req)
		errs <- err
	}()
	require.Eventually(t, func() bool {
		c, err := h.Output(t.Context(), guest.OutputRequest{CallID: req.CallID, Stream: guest.Stdout, MaxBytes: 10})
		return err == nil && len(c.Data) > 0
	}, waitLimit, tick)
	cancel()
	require.ErrorIs(t, <-errs, context.Canceled)
	_, err := h.Input(t.Context(), guest.InputRequest{CallID: callID(), CommandID: req.CallID, Data: []byte("\n")})
	require.NoError(t, err)
	require.Equal(t, "ready\ndone\n", string(run(t, h, req).Stdout.Head))
	require.Equal(t, 1, h.dials(), "a cancelled request costs no stream")
}

func TestManyRequestsShareTheStream(t *testing.T) {
	h := serve(t, options(t), fence)
	waiting := ready(t, h, "echo ready; read x")
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			_, err := h.Output(t.Context(), guest.OutputRequest{
				CallID: waiting.CallID, Stream: guest.Stdout, Offset: 6, MaxBytes: 10, WaitMS: 20_000,
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.Equal(t, "hi\n", sh(t, h, "echo hi"))
	stop(t, h, waiting.CallID, "")
	all.Wait()
	require.Equal(t, 1, h.dials())
}

func TestUnreachable(t *testing.T) {
	gone := errors.New("no such container")
	c := guest.NewClient(func(context.Context) (io.ReadWriteCloser, error) { return nil, gone }, fence, guest.ClientOptions{})
	_, err := c.Usage(t.Context())
	require.ErrorIs(t, err, guest.ErrUnreachable)
	require.ErrorIs(t, err, gone)
	require.Empty(t, guest.CodeOf(err))
	require.NoError(t, c.Close())
	_, err = c.Usage(t.Context())
	require.ErrorIs(t, err, guest.ErrUnreachable)
}

func TestHungStream(t *testing.T) {
	c := guest.NewClient(func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		return ours, nil
	}, fence, guest.ClientOptions{ConnectTimeout: 50 * time.Millisecond})
	began := time.Now()
	_, err := c.Usage(t.Context())
	require.ErrorIs(t, err, guest.ErrUnreachable)
	require.Less(t, time.Since(began), 2*time.Second)
	require.NoError(t, c.Close())
}

func TestClosedClientEndsRequests(t *testing.T) {
	h := serve(t, options(t), fence)
	req := request("echo ready; read x")
	req.KeepStdin = true
	errs := make(chan error, 1)
	go func() {
		_, err := h.Run(t.Context(), req)
		errs <- err
	}()
	require.Eventually(t, func() bool {
		u, err := h.Usage(t.Context())
		return err == nil && len(u.Running) == 1
	}, waitLimit, tick)
	require.NoError(t, h.Close())
	require.ErrorIs(t, <-errs, guest.ErrUnreachable)
}
