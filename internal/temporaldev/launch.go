package temporaldev

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
	"go.uber.org/fx"
)

// launch builds and starts the services on fresh ports. It fails with errPortLost
// when a port that was free is not any more.
func (s *Server) launch(ctx context.Context, opts Options, listen *net.TCPAddr) error {
	at, err := choosePorts(listen)
	if err != nil {
		return err
	}
	internode, err := newInternodeTLS()
	if err != nil {
		return err
	}
	store := storeConfig(s.database)
	if err := createNamespace(store, opts); err != nil {
		return err
	}
	s.log = newServerLog(opts.Logger)
	s.address = dialable(at[primitives.FrontendService])
	options := []temporal.ServerOption{
		temporal.WithConfig(serverConfig(store, at)),
		temporal.ForServices(temporal.Services),
		temporal.WithStaticHosts(staticHosts(at)),
		temporal.WithLogger(s.log),
		temporal.WithDynamicConfigClient(dynamicConfig()),
		temporal.WithAuthorizer(authorization.NewDefaultAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return newBearerClaims(s.secret) }),
		temporal.WithTLSConfigFactory(internode),
	}
	return s.boot(ctx, options)
}

// boot runs the server's constructor and start on a goroutine of their own, because
// they may hang, panic, or end it (see serverLog.Fatal).
func (s *Server) boot(ctx context.Context, options []temporal.ServerOption) error {
	result := make(chan error, 1)
	go func() {
		err := errors.New("temporal server gave up while starting") // stands after a Fatal
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("temporal server: panic while starting: %v", cause)
			}
			result <- err
		}()
		// Without span exporters the server emits no spans of its own, whatever OTEL_*
		// says, and leaves OpenTelemetry's process-wide error handler alone.
		module := fx.Options(temporal.TopLevelModule, fx.Replace([]trace.SpanExporter{}))
		server, startErr := temporal.NewServerFx(module, options...)
		if startErr == nil {
			s.temporal = server
			startErr = server.Start()
		}
		err = startErr
	}()
	select {
	case err := <-result:
		return s.bootError(err)
	case <-ctx.Done():
		// A start cannot be interrupted: it is stopped when it is through.
		go func() { //nolint:contextcheck // ctx is over
			if err := <-result; err == nil {
				s.Stop()
			}
		}()
		return fmt.Errorf("temporal server did not start in time: %w", context.Cause(ctx))
	}
}

// bootError prefers the reason that the server logged to what came out of it.
func (s *Server) bootError(err error) error {
	if err == nil {
		return nil
	}
	select {
	case fatal := <-s.log.state.fatal:
		return portLost(fatal)
	default:
		return portLost(fmt.Errorf("temporal server: %w", err))
	}
}

// checkpoint moves the write-ahead log into the database file, so that a copy of
// that one file is a backup of a stopped server. The data is safe without it.
func checkpoint(database string) error {
	return withDatabase(context.Background(), database, func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	})
}
