package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-sandbox/mcp-sandbox/internal/control"
	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
	"github.com/mcp-sandbox/mcp-sandbox/internal/httpserver"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/telemetry"
)

// shutdownTimeout bounds a server's end.
const shutdownTimeout = 10 * time.Second

type serveConfig struct {
	dataDir  string
	noWorker bool
	temporal temporalConfig
	host     hostConfig
	front    frontConfig
	socket   socketConfig
}

func newServe(p process) *cobra.Command {
	var cfg serveConfig
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve MCP over HTTP, with an embedded Temporal unless told otherwise",
		RunE: func(c *cobra.Command, _ []string) error {
			set := given(c)
			if err := configure(c, p); err != nil {
				return err
			}
			log, err := newLogger(c, p)
			if err != nil {
				return err
			}
			if err := errors.Join(cfg.check(set), cfg.socket.complete(c.Flags())); err != nil {
				return err
			}
			path, err := dataDir(c, p)
			if err != nil {
				return usageError{err}
			}
			cfg.dataDir = path
			return cfg.socket.inUseCode(serve(c.Context(), cfg, p, log))
		},
	}
	f := c.Flags()
	f.String("data-dir", "", "directory for state (default $XDG_STATE_HOME/mcp-sandbox or ~/.local/state/mcp-sandbox)")
	f.BoolVar(&cfg.noWorker, "no-worker", false, "run no worker: others on the same Temporal do the work")
	cfg.front.flags(f)
	cfg.temporal.flags(f, true)
	cfg.host.flags(f)
	cfg.socket.flags(f)
	return c
}

// check refuses what cannot be, and flags without an effect, before anything is
// started.
func (c *serveConfig) check(given map[string]bool) error {
	if c.temporal.address != "" {
		if err := useless(given, "temporal-address", "temporal-listen", "temporal-ui"); err != nil {
			return err
		}
	}
	if c.noWorker {
		if err := useless(given, "no-worker", "default-image", "pids-limit", "runtime", "dns", "deny-address", "snapshot-retention", "blob-dir", "reap-every"); err != nil {
			return err
		}
	}
	if err := c.temporal.check(c.front.insecureHTTP); err != nil {
		return err
	}
	if err := c.host.check(); err != nil {
		return err
	}
	return c.front.check()
}

// serve runs a server until ctx ends. Ending it ends no session.
func serve(ctx context.Context, cfg serveConfig, p process, log *slog.Logger) (err error) {
	s := &app{cfg: cfg, getenv: p.getenv, log: log, activity: &control.Activity{}}
	defer s.close()
	ctx, end, stop := ender(ctx, log)
	defer stop()
	if err := s.open(ctx); err != nil {
		return err
	}
	if s.socket, err = s.openSocket(end); err != nil {
		if cfg.socket.background {
			return err
		}
		log.Warn("mcp-sandbox stdio cannot use this server", "error", err)
	}
	if cfg.socket.idleExit > 0 {
		go s.awaitIdle(ctx, end)
	}
	text, err := s.front.announce(cfg.front, s.dir, s.conn.installation, cfg.socket.background)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(p.stderr, text); err != nil {
		return err
	}
	var broken <-chan error
	if s.conn.embedded != nil {
		broken = s.conn.embedded.Failed()
	}
	return s.front.serve(ctx, broken)
}

// app is a running `serve`: its parts, in the order they are opened.
type app struct {
	cfg    serveConfig
	getenv func(string) string
	log    *slog.Logger

	dir       *datadir.Dir
	front     *front
	telemetry *telemetry.Provider
	conn      *temporalConn
	sessions  *session.Client
	worker    *hostWorker // nil with --no-worker
	socket    *socket
	activity  *control.Activity
}

func (s *app) open(ctx context.Context) (err error) {
	if s.dir, err = datadir.Open(s.cfg.dataDir, datadir.Options{Exclusive: true, Purpose: s.cfg.socket.purpose()}); err != nil {
		return err
	}
	auth, err := authenticator(s.cfg.front, s.dir, s.log)
	if err != nil {
		return err
	}
	if s.front, err = openListeners(ctx, s.cfg.front, s.cfg.temporal.address == ""); err != nil {
		return err
	}
	if err := s.dir.SetPurpose(s.cfg.socket.purpose() + ", listening on " + s.front.listener.Addr().String()); err != nil {
		return err
	}
	if s.telemetry, err = telemetry.Start(ctx, telemetry.Options{Version: version, Getenv: s.getenv, Logger: s.log}); err != nil {
		return err
	}
	if s.conn, err = openTemporal(ctx, s.cfg.temporal, s.dir, s.log); err != nil {
		return err
	}
	s.sessions = newSessionClient(s.conn, s.dir.Secret(), s.cfg.front.maxSessions, s.log)
	if !s.cfg.noWorker {
		s.cfg.host.blobDir = cmp.Or(s.cfg.host.blobDir, s.dir.Path(blobsName))
		s.worker, err = startHostWorker(ctx, s.cfg.host, s.conn, s.dir.HostID(), s.sessions, s.getenv, s.log)
		if err != nil {
			return err
		}
	}
	if err := s.front.openUI(ctx, s.conn, s.dir, s.log); err != nil {
		return err
	}
	return s.front.serveMCP(s.cfg.front, s.sessions, auth, s.ready, s.telemetry.Metrics, s.activity.Begin, s.log)
}

// ready tells which parts cannot do their work now.
func (s *app) ready(ctx context.Context) error {
	var errs []error
	if err := checkTemporal(ctx, s.conn.Client); err != nil {
		errs = append(errs, &httpserver.PartError{Part: "temporal", Err: err})
	}
	if s.worker != nil {
		if err := s.worker.backend.Check(ctx); err != nil {
			errs = append(errs, &httpserver.PartError{Part: "engine", Err: err})
		}
	}
	return errors.Join(errs...)
}

// close closes the parts that were opened, last first.
func (s *app) close() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if s.socket != nil {
		s.socket.close(ctx)
	}
	if s.front != nil {
		s.front.close(ctx)
	}
	if s.worker != nil {
		s.worker.stop()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	if s.telemetry != nil {
		s.telemetry.Close(ctx)
	}
	if s.dir != nil {
		_ = s.dir.Close()
	}
}
