package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/mcp-sandbox/mcp-sandbox/internal/access"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// Path is where MCP is served.
const Path = "/mcp"

// Defaults and limits.
const (
	// DefaultMaxBodyBytes is room for the largest file that goes inline, in base64.
	DefaultMaxBodyBytes = 4 << 20
	// DefaultSessionIdleTTL is how long an MCP session lives without a request
	// and without an open stream.
	DefaultSessionIdleTTL = 4 * time.Hour

	shutdownTimeout = 5 * time.Second
	headerTimeout   = 10 * time.Second
	bodyTimeout     = time.Minute
	keepAlive       = 2 * time.Minute
	maxHeaderBytes  = 64 << 10
	heartbeat       = 30 * time.Second
)

// Options are what a Server needs. MCP and Auth are required.
type Options struct {
	// MCP answers the messages. New adds a tool middleware to it.
	MCP  *server.MCPServer
	Auth access.Authenticator
	// Ready tells whether the server can do its work: nil, or one PartError or
	// several joined. It gets 2 s. Default: always ready.
	Ready  func(ctx context.Context) error
	Logger *slog.Logger // default slog.Default
	// AllowedOrigins are the web pages, such as "https://agent.example.com", that
	// may use the server from a browser beside those it served itself.
	AllowedOrigins []string
	// AllowedHosts are the names, such as "sandbox.example.com" or with a port,
	// that the server may be called by beside its address.
	AllowedHosts []string
	MaxBodyBytes int64 // default DefaultMaxBodyBytes
	// TLSCert and TLSKey are PEM files; both or none. They are read once.
	TLSCert, TLSKey string
	SessionIdleTTL  time.Duration // default DefaultSessionIdleTTL
	// Begin is told of each MCP request that came with a good token, and its result
	// of the end of the request. Default: nobody is told.
	Begin func() (done func())
	// Metrics is served at /metrics, behind the token. Default: no such route.
	Metrics http.Handler
}

// Server is the HTTP front. It may serve several listeners at once.
type Server struct {
	opts     Options
	origins  map[string]bool
	hosts    map[string]bool
	sessions *mcpSessions
	mcp      *server.StreamableHTTPServer
	http     *http.Server
	ready    readiness

	// base is the context that all requests come from. Its end, with the cause
	// ErrShuttingDown, ends the streams, for which http.Server.Shutdown would wait
	// for ever, and tells the tools to return.
	base context.Context //nolint:containedctx // the life of the server, as http.Server.BaseContext wants it
	stop context.CancelCauseFunc

	shutdown    sync.Once
	shutdownErr error
}

// New makes a Server. The caller ends it with Shutdown, served or not.
func New(opts Options) (*Server, error) {
	if opts.MCP == nil || opts.Auth == nil {
		return nil, errors.New("http: MCP and Auth are required")
	}
	s := &Server{opts: withDefaults(opts), sessions: newMCPSessions()}
	var err error
	if s.origins, err = parseOrigins(opts.AllowedOrigins); err != nil {
		return nil, err
	}
	if s.hosts, err = parseHosts(opts.AllowedHosts); err != nil {
		return nil, err
	}
	tlsConfig, err := loadTLS(opts.TLSCert, opts.TLSKey)
	if err != nil {
		return nil, err
	}
	s.base, s.stop = context.WithCancelCause(context.Background())
	s.ready = readiness{base: s.base, check: s.opts.Ready, logger: s.opts.Logger}
	s.opts.MCP.Use(s.tellShutdown)
	s.mcp = server.NewStreamableHTTPServer(s.opts.MCP,
		server.WithSessionIdManagerResolver(s.sessions),
		server.WithSessionIdleTTL(s.opts.SessionIdleTTL),
		// A write to a stream counts as use of its MCP session.
		server.WithHeartbeatInterval(min(heartbeat, s.opts.SessionIdleTTL/3)),
		server.WithHTTPContextFunc(toolContext),
		server.WithStreamableHTTPLogger(s.opts.Logger),
		// checkHost does that, and knows AllowedHosts.
		server.WithDisableLocalhostProtection(true),
	)
	s.http = &http.Server{
		Handler:           s.routes(),
		TLSConfig:         tlsConfig,
		ReadHeaderTimeout: headerTimeout,
		// No ReadTimeout and no WriteTimeout: they would cut calls and streams.
		IdleTimeout:    keepAlive,
		MaxHeaderBytes: maxHeaderBytes,
		BaseContext:    func(net.Listener) context.Context { return s.base },
		ErrorLog:       slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelInfo),
	}
	return s, nil
}

func withDefaults(opts Options) Options {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Ready == nil {
		opts.Ready = func(context.Context) error { return nil }
	}
	if opts.Begin == nil {
		opts.Begin = func() func() { return func() {} }
	}
	if opts.MaxBodyBytes <= 0 {
		opts.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if opts.SessionIdleTTL <= 0 {
		opts.SessionIdleTTL = DefaultSessionIdleTTL
	}
	return opts
}

func loadTLS(certFile, keyFile string) (*tls.Config, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	if certFile == "" || keyFile == "" {
		return nil, errors.New("tls: a certificate and its key belong together; give both or none")
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: certificate %s, key %s: %w", certFile, keyFile, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthz)
	mux.Handle("GET /readyz", &s.ready)
	mux.Handle(Path, s.authenticate(http.HandlerFunc(s.serveMCP)))
	if s.opts.Metrics != nil {
		mux.Handle("GET /metrics", s.authenticate(s.opts.Metrics))
	}
	return s.recoverPanics(s.checkHost(s.checkOrigin(mux)))
}

// Serve serves l, and closes it, until ctx ends or Shutdown is called; then it
// returns when the shutdown is complete. TLS is used if there is a certificate.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer func() { _ = l.Close() }() // again, mostly: not every failure below closes it
	served := make(chan error, 1)
	go func() {
		// Not http.TLSConfig, which net/http fills in by itself.
		if s.opts.TLSCert != "" {
			served <- s.http.ServeTLS(l, "", "")
			return
		}
		served <- s.http.Serve(l)
	}()
	select {
	case err := <-served:
		if !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("http: %w", err)
		}
		return s.Shutdown(context.WithoutCancel(ctx)) // waits for the one in progress
	case <-ctx.Done():
		err := s.Shutdown(context.WithoutCancel(ctx))
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("http: %w", end))
		}
		return err
	}
}

// Shutdown takes no new requests, ends the streams, tells running calls that the
// server ends (tools.ErrShuttingDown, which interrupts no command) and lets them
// answer. What has not ended with ctx, or after 5 s, is cut off: an error, but
// all is closed then too. Later calls wait for the first and return its error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.shutdown.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
		defer cancel()
		s.stop(tools.ErrShuttingDown) // first: Shutdown alone looks like clients that left
		if err := s.http.Shutdown(ctx); err != nil {
			s.shutdownErr = fmt.Errorf("http: calls that did not end were cut off: %w", errors.Join(err, s.http.Close()))
		}
		if err := s.mcp.Shutdown(ctx); err != nil {
			s.shutdownErr = errors.Join(s.shutdownErr, fmt.Errorf("http: mcp: %w", err))
		}
	})
	return s.shutdownErr
}
