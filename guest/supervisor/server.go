package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// SocketName is the socket's name in the state directory.
const SocketName = "guest.sock"

// maxStreams is how many requests may be under way on one connection: all that
// wait for commands, and room for reads and stops.
const maxStreams = 1024

func (s *Supervisor) newServer() *http.Server {
	mux := http.NewServeMux()
	route(s, mux, guest.PathHello, s.hello)
	route(s, mux, guest.PathRun, s.Run)
	route(s, mux, guest.PathOutput, s.Output)
	route(s, mux, guest.PathInput, s.Input)
	route(s, mux, guest.PathStop, s.Stop)
	route(s, mux, guest.PathRefuse, s.Refuse)
	route(s, mux, guest.PathReadFile, s.ReadFile)
	route(s, mux, guest.PathWriteFile, s.WriteFile)
	route(s, mux, guest.PathEditFile, s.EditFile)
	route(s, mux, guest.PathMissing, s.Missing)
	route(s, mux, guest.PathCopyIn, s.CopyIn)
	s.stream(mux, guest.PathStage, s.routeStage)
	s.stream(mux, guest.PathCopyOut, s.routeCopyOut)
	route(s, mux, guest.PathUsage, func(ctx context.Context, _ struct{}) (guest.Usage, error) { return s.Usage(ctx) })

	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           mux,
		Protocols:         &protocols,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		// A host that is gone without a word is noticed by pings.
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
			MaxReceiveBufferPerConnection: 2 << 20, MaxReceiveBufferPerStream: 1 << 20,
			MaxReadFrameSize: guest.MaxFrame,
		},
	}
}

// Serve answers on the socket in the state directory until Close. It returns nil
// then.
func (s *Supervisor) Serve() error {
	path := filepath.Join(s.opts.State, SocketName)
	// Ours alone: the journal's lock is held. What stands there is stale.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove stale socket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(s.ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return fmt.Errorf("listen: %w", err)
	}
	if err := s.server.Serve(peerListener{l, s.opts.PeerUID}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// peerListener takes connections of one uid only. The socket's mode says the
// same; this holds even where a mode was changed.
type peerListener struct {
	net.Listener
	uid uint32
}

func (l peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // net/http looks at it
		}
		if uid, err := peerUID(conn); err == nil && uid == l.uid {
			return conn, nil
		}
		_ = conn.Close()
	}
}

func peerUID(conn net.Conn) (uint32, error) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("no Unix connection")
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("peer: %w", err)
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, inner); err != nil {
		return 0, fmt.Errorf("peer: %w", err)
	}
	return cred.Uid, nil
}

// route serves one operation: fence, decode, call, encode.
func route[In, Out any](s *Supervisor, mux *http.ServeMux, path string, call func(context.Context, In) (Out, error)) {
	s.stream(mux, path, func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, guest.MaxBody)).Decode(&in); err != nil {
			reply(w, http.StatusBadRequest, guest.Errorf(guest.CodeInvalid, "request: %v", err))
			return
		}
		out, err := call(r.Context(), in)
		if err == nil {
			reply(w, http.StatusOK, out)
			return
		}
		refuse(w, err)
	})
}

// stream serves an operation that reads its body and writes its answer itself.
func (s *Supervisor) stream(mux *http.ServeMux, path string, serve http.HandlerFunc) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.opts.Log.Error("panic in a request", "path", path, "panic", p)
				reply(w, http.StatusBadRequest, guest.Errorf(guest.CodeInternal, "a fault of the guest in %s", path))
			}
		}()
		if gerr := s.fence(r.Header); gerr != nil {
			reply(w, http.StatusBadRequest, gerr)
			return
		}
		serve(w, r)
	})
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	if gerr, ok := errors.AsType[*guest.Error](err); ok {
		reply(w, http.StatusBadRequest, gerr)
		return
	}
	// The request was given up, or the guest ends: there is no answer.
	w.WriteHeader(http.StatusServiceUnavailable)
}

func reply(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// fence refuses what is meant for another container.
func (s *Supervisor) fence(h http.Header) *guest.Error {
	want := s.opts.Fence
	if h.Get(guest.HeaderSession) == want.Session && h.Get(guest.HeaderIncarnation) == strconv.Itoa(want.Incarnation) {
		return nil
	}
	return guest.Errorf(guest.CodeFenced, "this is incarnation %d of session %s; the request is for %.20s of %.80s",
		want.Incarnation, want.Session, h.Get(guest.HeaderIncarnation), h.Get(guest.HeaderSession))
}

func (s *Supervisor) hello(_ context.Context, req guest.HelloRequest) (guest.Hello, error) {
	protocol := min(req.MaxProtocol, guest.ProtocolVersion)
	if protocol < max(req.MinProtocol, guest.MinProtocol) {
		return guest.Hello{}, guest.Errorf(guest.CodeInvalid,
			"no common protocol: this guest speaks %d to %d, the caller %d to %d",
			guest.MinProtocol, guest.ProtocolVersion, req.MinProtocol, req.MaxProtocol)
	}
	return guest.Hello{
		Protocol: protocol, Version: s.opts.Version(), BootID: s.boot,
		Session: s.opts.Fence.Session, Incarnation: s.opts.Fence.Incarnation,
	}, nil
}
