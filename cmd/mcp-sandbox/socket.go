package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/pflag"

	"github.com/mcp-sandbox/mcp-sandbox/internal/access"
	"github.com/mcp-sandbox/mcp-sandbox/internal/background"
	"github.com/mcp-sandbox/mcp-sandbox/internal/control"
	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
	"github.com/mcp-sandbox/mcp-sandbox/internal/defaultsession"
	"github.com/mcp-sandbox/mcp-sandbox/internal/pipe"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// backgroundIdleExit is --idle-exit of a server in the background, unless it is
// set.
const backgroundIdleExit = 10 * time.Minute

// commitTime is set by the linker: the time of the commit, RFC 3339.
var commitTime = ""

// buildTime is the time of the commit that this program was built from, RFC 3339
// in UTC; "" when it is not known.
func buildTime() string {
	text := commitTime
	if info, ok := debug.ReadBuildInfo(); ok && text == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				text = s.Value
			}
		}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// socketConfig are the flags about a server's life and its socket.
type socketConfig struct {
	background bool
	idleExit   time.Duration
}

func (c *socketConfig) flags(f *pflag.FlagSet) {
	f.DurationVar(&c.idleExit, "idle-exit", 0, "end when for this long no stdio client was connected and no MCP request came, and no session lives (0: never)")
	f.BoolVar(&c.background, "background", false, "started by mcp-sandbox stdio")
	_ = f.MarkHidden("background")
}

// complete fills in what depends on other flags. Call it after configure.
func (c *socketConfig) complete(f *pflag.FlagSet) error {
	if c.idleExit < 0 {
		return usagef("--idle-exit: %s is below 0, which is never", c.idleExit)
	}
	if c.background && !f.Changed("idle-exit") {
		c.idleExit = backgroundIdleExit
	}
	return nil
}

// purpose is what the data dir's lock says of the server.
func (c *socketConfig) purpose() string {
	if c.background {
		return "a server in the background"
	}
	return "a server"
}

// inUseCode tells the client that started this server that another was faster.
func (c *socketConfig) inUseCode(err error) error {
	if _, ok := errors.AsType[*datadir.InUseError](err); ok && c.background {
		return codeError{err, background.ExitInUse}
	}
	return err
}

// socket is the server's end of mcp-sandbox stdio: the control socket and what is
// behind it.
type socket struct {
	server   *control.Server
	listener net.Listener
	activity *control.Activity
	store    *defaultsession.Store
	opts     pipe.Options
}

// openSocket makes the socket in the data dir and serves it. end ends the server.
func (s *app) openSocket(end func(reason string)) (*socket, error) {
	store, err := defaultsession.New(defaultsession.Options{
		Dir: s.dir.Path("stdio-sessions"), Owner: access.LocalOwner, Caller: s.sessions,
		SessionID: s.sessions.SessionID, Ended: s.sessions.Ended, Logger: s.log,
	})
	if err != nil {
		return nil, err
	}
	k := &socket{activity: s.activity, store: store}
	o := s.cfg.front.tools(s.sessions, s.log)
	o.Caller, o.DefaultSession = store.Watch(s.sessions), store.Session
	k.opts = pipe.Options{MCP: tools.New(o), Logger: s.log}
	if k.listener, err = control.Listen(s.dir.Path()); err != nil {
		return nil, err
	}
	k.server = control.NewServer(control.Options{
		Hello: control.Hello{
			Version: version, Build: buildTime(), PID: os.Getpid(), Background: s.cfg.socket.background, StartedAt: time.Now().UTC(),
		},
		Shutdown: end,
		Check:    func(a control.Attach) error { return defaultsession.Check(a.ConnectionID, a.SessionName) },
		Stdio:    k.stdio, Session: k.session, Logger: s.log,
	})
	go func() {
		if err := k.server.Serve(k.listener); err != nil {
			s.log.Error("the socket of mcp-sandbox stdio broke", "error", err)
			end("its socket broke")
		}
	}()
	return k, nil
}

// stdio serves a client's stream as the data dir's owner.
func (k *socket) stdio(ctx context.Context, a control.Attach, conn io.ReadWriteCloser) error {
	defer k.activity.Begin()()
	c, err := k.store.Connection(a.ConnectionID, a.SessionName)
	if err != nil {
		_ = conn.Close()
		return err
	}
	defer k.store.Release(c)
	return pipe.Serve(tools.WithOwner(defaultsession.WithConnection(ctx, c), access.LocalOwner), conn, k.opts)
}

// session starts a client's default session, or finds it.
func (k *socket) session(ctx context.Context, a control.Attach) (control.SessionReply, error) {
	defer k.activity.Begin()()
	c, err := k.store.Connection(a.ConnectionID, a.SessionName)
	if err != nil {
		return control.SessionReply{}, err
	}
	defer k.store.Release(c)
	if a.Filled {
		return control.SessionReply{}, k.store.Filled(ctx, c)
	}
	id, fresh, err := k.store.Start(ctx, c)
	return control.SessionReply{SessionID: id, Fresh: fresh}, err
}

func (k *socket) close(ctx context.Context) {
	k.server.Shutdown(ctx)
	_ = k.listener.Close() // where it was not served yet
}

// awaitIdle ends the server when it is idle. With an external Temporal others can
// see to the sessions; the embedded one must be there for their timers.
func (s *app) awaitIdle(ctx context.Context, end func(reason string)) {
	live := func(context.Context) (bool, error) { return false, nil }
	if s.conn.embedded != nil {
		admin := session.NewAdmin(s.sessions)
		live = func(ctx context.Context) (bool, error) {
			found, err := admin.Sessions(ctx, session.Filter{Limit: 1})
			if err != nil {
				s.log.Warn("look for live sessions", "error", err)
			}
			return len(found) > 0, err
		}
	}
	if s.activity.AwaitIdle(ctx, s.cfg.socket.idleExit, live) == nil {
		end("idle for " + s.cfg.socket.idleExit.String())
	}
}

// ender gives a context that ends with the server, and what ends it.
func ender(ctx context.Context, log *slog.Logger) (_ context.Context, end func(reason string), stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, func(reason string) {
		if ctx.Err() == nil {
			log.Info("the server ends; sessions go on", "reason", reason)
		}
		cancel()
	}, cancel
}
