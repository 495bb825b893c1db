package temporaldev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/server/temporal"
)

// Defaults of Options.
const (
	DefaultListen    = "127.0.0.1:0"
	DefaultNamespace = "default"
	// DefaultRetention keeps the history of an ended session for an audit.
	DefaultRetention = 30 * 24 * time.Hour
	// MinRetention is the server's lower limit.
	MinRetention = time.Hour
)

const (
	// startTimeout bounds Start; 0.5 s is usual.
	startTimeout = time.Minute
	// stopTimeout bounds Stop; 1 to 2 s are usual.
	stopTimeout = 10 * time.Second
	// portAttempts is how often a start is tried when another program took a port
	// between its choice and its use.
	portAttempts = 3
)

// Options of Start.
type Options struct {
	// DataDir holds the database and the secret. Required; made with mode 0700.
	DataDir string
	// Listen is the frontend's address, host an IP address or localhost. Default
	// DefaultListen, port 0 a free port. A taken port is an error that
	// errors.Is(err, syscall.EADDRINUSE) knows.
	Listen string
	// Namespace is registered if it is not there. Default DefaultNamespace.
	Namespace string
	// Retention of closed workflows in Namespace; a changed one is applied at start.
	// Default DefaultRetention, at least MinRetention.
	Retention time.Duration
	// SearchAttributes can be used in Namespace when Start returns. SQLite has room
	// for 10 keywords and 3 of each other type. They are added to, never removed.
	SearchAttributes map[string]enumspb.IndexedValueType
	// Logger gets the server's warnings and errors. Default: they are dropped.
	Logger *slog.Logger
}

func (o *Options) applyDefaults() error {
	if o.DataDir == "" {
		return errors.New("temporal: no data dir given")
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return fmt.Errorf("temporal data dir: %w", err)
	}
	o.DataDir = dir
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Retention == 0 {
		o.Retention = DefaultRetention
	}
	if o.Retention < MinRetention {
		return fmt.Errorf("temporal retention %s is too short: the least is %s", o.Retention, MinRetention)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Server is a running Temporal server. Whoever started it stops it.
type Server struct {
	temporal  temporal.Server
	log       *serverLog
	database  string
	address   string
	namespace string
	secret    string
	stop      sync.Once
}

// Start runs a Temporal server and returns once its namespace and search attributes
// can be used. ctx bounds the start only. Errors name a remedy where there is one;
// ErrDatabaseDamaged, ErrDatabaseLocked, ErrDatabaseVersion and syscall.EADDRINUSE
// tell causes apart.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if err := opts.applyDefaults(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	listen, err := net.ResolveTCPAddr("tcp", opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("temporal listen address: %w", err)
	}
	if listen.IP == nil { // ":7233"
		listen.IP = net.IPv4zero
	}
	if err := os.MkdirAll(opts.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("temporal data dir: %w", err)
	}
	secret, err := loadSecret(filepath.Join(opts.DataDir, secretFile))
	if err != nil {
		return nil, err
	}
	database := filepath.Join(opts.DataDir, databaseFile)
	if err := prepareDatabase(ctx, database); err != nil {
		return nil, err
	}
	s := &Server{database: database, namespace: opts.Namespace, secret: secret}
	for range portAttempts {
		if err = s.launch(ctx, opts, listen); !errors.Is(err, errPortLost) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if err := s.settleNamespace(ctx, opts); err != nil {
		s.Stop() //nolint:contextcheck // Stop bounds itself; ctx may be over
		return nil, err
	}
	return s, nil
}

// Address is where clients on this machine reach the frontend, host:port.
func (s *Server) Address() string { return s.address }

// Namespace is the one that Start registered.
func (s *Server) Namespace() string { return s.namespace }

// Secret is the bearer that the frontend asks for. Keep it out of logs.
func (s *Server) Secret() string { return s.secret }

// HeadersProvider sends the secret with each call of an SDK client.
func (s *Server) HeadersProvider() BearerHeaders { return HeadersProvider(s.secret) }

// ClientOptions are what an SDK client needs to reach this server. The caller adds
// its interceptors; a nil logger keeps the SDK silent, which otherwise prints.
func (s *Server) ClientOptions(logger *slog.Logger) client.Options {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return client.Options{
		HostPort:        s.address,
		Namespace:       s.namespace,
		HeadersProvider: s.HeadersProvider(),
		Logger:          sdklog.NewStructuredLogger(logger),
		// gzip, the SDK's default, costs more than the loopback saves by it.
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}},
	}
}

// Failed gives the error of a server that broke down after its start, at most one.
// A process that sees it should end: the server cannot be started again.
func (s *Server) Failed() <-chan error { return s.log.state.fatal }

// Stop ends the server and waits for it, at most 10 s. Calls after the first return
// at once. What the server itself leaves behind stays: a database connection and some
// hundred idle goroutines. Stop its workers first; with pollers it takes 2 s.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.log.state.stopping.Store(true)
		done := make(chan error, 1)
		go func() { done <- s.temporal.Stop() }()
		select {
		case err := <-done:
			if err != nil {
				s.log.logger.Warn("stop", slog.Any("error", err))
			}
		case <-time.After(stopTimeout):
			s.log.logger.Warn("still stopping, not waiting any longer", slog.Duration("waited", stopTimeout))
		}
		if err := checkpoint(s.database); err != nil {
			s.log.logger.Debug("checkpoint", slog.Any("error", err))
		}
	})
}

// errPortLost: the address was free when it was chosen.
var errPortLost = errors.New("another program took the port")

func portLost(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: %w", errPortLost, err)
	}
	return err
}
