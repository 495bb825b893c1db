package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

const (
	headerTimeout = 10 * time.Second
	maxBody       = 64 << 10
)

// Options are what a Server needs; all but Logger are required.
type Options struct {
	Hello Hello
	// Shutdown asks the server to end, and returns at once.
	Shutdown func(reason string)
	// Check refuses an Attach before it becomes a stream.
	Check func(Attach) error
	// Stdio serves a stream and closes it. ctx ends with tools.ErrShuttingDown.
	Stdio func(ctx context.Context, a Attach, conn io.ReadWriteCloser) error
	// Session starts the default session of a connection, or finds it.
	Session func(ctx context.Context, a Attach) (SessionReply, error)
	Logger  *slog.Logger
}

// Server answers on the socket.
type Server struct {
	opts    Options
	http    *http.Server
	mu      sync.Mutex // no stream begins once base has ended
	streams sync.WaitGroup

	base context.Context //nolint:containedctx // the life of the server, as http.Server.BaseContext wants it
	stop context.CancelCauseFunc
}

// NewServer makes a Server. The caller ends it with Shutdown, served or not.
func NewServer(opts Options) *Server {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	opts.Hello.Protocol, opts.Hello.OldestProtocol = Protocol, OldestProtocol
	s := &Server{opts: opts}
	s.base, s.stop = context.WithCancelCause(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/hello", s.hello)
	mux.HandleFunc("POST /v1/shutdown", s.shutdown)
	mux.HandleFunc("POST /v1/stdio", s.stdio)
	mux.HandleFunc("POST /v1/stdio-session", s.session)
	s.http = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: headerTimeout,
		BaseContext:       func(net.Listener) context.Context { return s.base },
		ErrorLog:          slog.NewLogLogger(opts.Logger.Handler(), slog.LevelInfo),
	}
	return s
}

// Serve serves a listener of Listen's until Shutdown; that is no error.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("control socket: %w", err)
	}
	return nil
}

// Shutdown takes nothing new, cuts the streams off with tools.ErrShuttingDown and
// waits, as long as ctx allows, for what they were doing to return.
func (s *Server) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.stop(tools.ErrShuttingDown)
	s.mu.Unlock()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	ended := make(chan struct{})
	go func() {
		s.streams.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

func (s *Server) hello(w http.ResponseWriter, _ *http.Request) { reply(w, s.opts.Hello) }

func (s *Server) shutdown(w http.ResponseWriter, r *http.Request) {
	reason := r.URL.Query().Get("reason")
	reply(w, s.opts.Hello)
	_ = http.NewResponseController(w).Flush() // before the end, which would cut it off
	s.opts.Shutdown(reason)
}

func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	a, ok := s.attach(w, r)
	if !ok {
		return
	}
	out, err := s.opts.Session(r.Context(), a)
	if err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	reply(w, out)
}

// stdio takes the connection over for a stream.
func (s *Server) stdio(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), upgrade) {
		fail(w, http.StatusUpgradeRequired, fmt.Errorf("ask for Upgrade: %s", upgrade))
		return
	}
	a, ok := s.attach(w, r)
	if !ok {
		return
	}
	if !s.begin() {
		fail(w, http.StatusServiceUnavailable, tools.ErrShuttingDown)
		return
	}
	defer s.streams.Done()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	stream := &bufferedConn{Conn: conn, r: buffered.Reader}
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+upgrade+"\r\n\r\n"); err != nil {
		_ = conn.Close()
		return
	}
	log := s.opts.Logger.With("connection", a.ConnectionID, "session_name", a.SessionName, "client_pid", a.ClientPID)
	log.Info("stdio client connected", "client_version", a.ClientVersion)
	if err := s.opts.Stdio(s.base, a, stream); err != nil { //nolint:contextcheck // a hijack leaves the request's context to net/http
		log.Warn("stdio client's connection broke", "error", err)
		return
	}
	log.Info("stdio client left")
}

func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base.Err() != nil {
		return false
	}
	s.streams.Add(1)
	return true
}

// attach reads an Attach or answers for it.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) (a Attach, ok bool) {
	if s.base.Err() != nil {
		fail(w, http.StatusServiceUnavailable, tools.ErrShuttingDown)
		return a, false
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&a); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("body: %w", err))
		return a, false
	}
	if err := s.opts.Check(a); err != nil {
		fail(w, http.StatusBadRequest, err)
		return a, false
	}
	return a, true
}

// problem is the body of an error answer.
type problem struct {
	Code    session.Code `json:"code"`
	Message string       `json:"message"`
}

func fail(w http.ResponseWriter, status int, err error) {
	p := problem{Code: session.CodeOf(err), Message: err.Error()}
	if e, ok := errors.AsType[*session.Error](err); ok {
		p.Message = e.Message
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p) // a client that is gone
}

func reply(w http.ResponseWriter, out any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // a client that is gone
}
