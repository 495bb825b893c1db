package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mcp-sandbox/mcp-sandbox/internal/access"
	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
	"github.com/mcp-sandbox/mcp-sandbox/internal/httpserver"
	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// Default addresses; a taken one falls back to a free port.
const (
	defaultListen = "127.0.0.1:8765"
	defaultUI     = "127.0.0.1:8233"
)

// defaultMaxSessions is far more than an agent needs and fewer than a host's
// memory ends at.
const defaultMaxSessions = 100

// frontConfig are the flags of the HTTP front.
type frontConfig struct {
	listen          string
	ui              string
	authTokenFile   string
	noAuth          bool
	insecureHTTP    bool
	tlsCert, tlsKey string
	allowedOrigins  []string
	allowedHosts    []string
	networks        []string
	maxSessions     int
	toolsets        []string
}

func (c *frontConfig) flags(f *pflag.FlagSet) {
	f.StringVar(&c.listen, "listen", defaultListen, "address for MCP over HTTP")
	f.StringVar(&c.ui, "temporal-ui", defaultUI, "address of Temporal's UI, or off")
	f.StringVar(&c.authTokenFile, "auth-token-file", "", "file of owner:sha256-of-token lines, instead of the data dir's own token")
	f.BoolVar(&c.noAuth, "no-auth", false, "ask for no token; on loopback only")
	f.BoolVar(&c.insecureHTTP, "insecure-http", false, "allow a listen address beyond loopback without TLS: something else protects it")
	f.StringVar(&c.tlsCert, "tls-cert", "", "certificate file (PEM)")
	f.StringVar(&c.tlsKey, "tls-key", "", "private key file (PEM)")
	f.StringSliceVar(&c.allowedOrigins, "allowed-origin", nil, "web pages that may call from a browser, such as https://agent.example.com")
	f.StringSliceVar(&c.allowedHosts, "allowed-host", nil, "names the server may be called by beside its address")
	f.StringSliceVar(&c.networks, "allow-network", []string{session.NetworkNone}, "networks that agents may ask for: none, full")
	f.IntVar(&c.maxSessions, "max-sessions", defaultMaxSessions, "live sessions that one owner may have at a time; 0 for no limit")
	f.StringSliceVar(&c.toolsets, "toolsets", tools.Toolsets(), "groups of tools to offer")
}

// check refuses what cannot be before anything is started.
func (c *frontConfig) check() error {
	if c.noAuth && c.authTokenFile != "" {
		return usagef("--no-auth and --auth-token-file exclude each other")
	}
	if (c.tlsCert == "") != (c.tlsKey == "") {
		return usagef("--tls-cert and --tls-key go together")
	}
	if c.ui != "off" {
		if _, _, err := net.SplitHostPort(c.ui); err != nil {
			return usagef("--temporal-ui: %q: write HOST:PORT, such as %s, or off: %w", c.ui, defaultUI, err)
		}
		if err := clearText("--temporal-ui", c.ui, c.insecureHTTP); err != nil {
			return err
		}
	}
	for _, n := range c.networks {
		if n != session.NetworkNone && n != session.NetworkFull {
			return usagef("--allow-network: %q is neither none nor full", n)
		}
	}
	if c.maxSessions < 0 {
		return usagef("--max-sessions: %d is below 0, which stands for no limit", c.maxSessions)
	}
	if err := tools.CheckToolsets(c.toolsets); err != nil {
		return usagef("--toolsets: %w", err)
	}
	if err := httpserver.CheckListen(c.listen, !c.noAuth, c.tlsCert != "", c.insecureHTTP); err != nil {
		return usagef("--listen: %w", err)
	}
	return nil
}

// front is what clients reach: MCP over HTTP, and Temporal's UI.
type front struct {
	http     *httpserver.Server
	listener net.Listener

	ui         *temporaldev.UI
	uiServer   *http.Server
	uiListener net.Listener
}

// openListeners takes the addresses first, so that a taken one is told before
// anything is started.
func openListeners(ctx context.Context, cfg frontConfig, withUI bool) (*front, error) {
	l, err := httpserver.Listen(ctx, cfg.listen, cfg.listen == defaultListen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	f := &front{listener: l}
	if withUI && cfg.ui != "off" {
		if f.uiListener, err = httpserver.Listen(ctx, cfg.ui, cfg.ui == defaultUI); err != nil {
			_ = l.Close()
			return nil, fmt.Errorf("--temporal-ui: %w", err)
		}
	}
	return f, nil
}

func authenticator(cfg frontConfig, dir *datadir.Dir, log *slog.Logger) (access.Authenticator, error) {
	switch {
	case cfg.noAuth:
		return access.Anonymous{}, nil
	case cfg.authTokenFile != "":
		a, err := access.OpenTokenFile(cfg.authTokenFile, access.Options{Logger: log})
		if err != nil {
			return nil, usagef("--auth-token-file: %w", err)
		}
		return a, nil
	default:
		return access.NewSingle(dir.Token, access.Options{Logger: log})
	}
}

// tools are the options of the tools, by whichever way they are reached.
func (c *frontConfig) tools(sessions *session.Client, log *slog.Logger) tools.Options {
	return tools.Options{
		Caller: sessions, Version: version, Toolsets: c.toolsets, Networks: c.networks, Logger: log,
		Interrupt: sessions.Interrupt,
		Progress: func(ctx context.Context, call session.Call) string {
			p, _ := sessions.CommandProgress(ctx, call)
			return p.LastLine
		},
	}
}

// serveMCP builds the HTTP front over the tools.
func (f *front) serveMCP(cfg frontConfig, sessions *session.Client, auth access.Authenticator, ready func(context.Context) error, metrics http.Handler, begin func() (done func()), log *slog.Logger) error {
	mcp := tools.New(cfg.tools(sessions, log))
	h, err := httpserver.New(httpserver.Options{
		MCP: mcp, Auth: auth, Ready: ready, Metrics: metrics, Begin: begin, Logger: log,
		AllowedOrigins: cfg.allowedOrigins, AllowedHosts: cfg.allowedHosts, TLSCert: cfg.tlsCert, TLSKey: cfg.tlsKey,
	})
	f.http = h
	return err
}

// openUI puts Temporal's UI behind the data dir's token.
func (f *front) openUI(ctx context.Context, conn *temporalConn, dir *datadir.Dir, log *slog.Logger) error {
	if f.uiListener == nil || conn.embedded == nil {
		return nil
	}
	auth, err := access.NewSingle(dir.Token, access.Options{Logger: log})
	if err != nil {
		return err
	}
	f.ui, err = temporaldev.StartUI(ctx, temporaldev.UIOptions{
		FrontendAddress: conn.embedded.Address(), Namespace: conn.embedded.Namespace(), Secret: conn.embedded.Secret(), Logger: log,
	})
	if err != nil {
		return err
	}
	f.uiServer = &http.Server{
		Handler: f.ui.Handler(func(token string) bool {
			_, ok := auth.Owner(token)
			return ok
		}),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return nil
}

// serve serves until ctx ends or a part breaks.
func (f *front) serve(ctx context.Context, broken <-chan error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if f.uiServer != nil {
		go func() {
			if err := f.uiServer.Serve(f.uiListener); !errors.Is(err, http.ErrServerClosed) {
				cancel(fmt.Errorf("serve Temporal's UI: %w", err))
			}
		}()
	}
	go func() {
		select {
		case err := <-broken:
			cancel(fmt.Errorf("the embedded Temporal broke down: %w", err))
		case <-ctx.Done():
		}
	}()
	err := f.http.Serve(ctx, f.listener)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// close ends what clients reach.
func (f *front) close(ctx context.Context) {
	if f.http != nil {
		_ = f.http.Shutdown(ctx)
	}
	if f.uiServer != nil {
		_ = f.uiServer.Close()
	}
	if f.ui != nil {
		_ = f.ui.Close()
	}
	_ = f.listener.Close()
	if f.uiListener != nil {
		_ = f.uiListener.Close()
	}
}

// announce says where everything is and gives the configuration to paste. In the
// background that goes to a log: no token then.
func (f *front) announce(cfg frontConfig, dir *datadir.Dir, installation string, background bool) (string, error) {
	token, err := dir.Token()
	if err != nil {
		return "", err
	}
	url := httpserver.URL(f.listener.Addr(), cfg.tlsCert != "")
	var b strings.Builder
	fmt.Fprintf(&b, "MCP           %s\n", url)
	if f.uiServer != nil && !background {
		fmt.Fprintf(&b, "Temporal UI   http://%s/?token=%s\n", f.uiListener.Addr(), token)
	}
	fmt.Fprintf(&b, "Data dir      %s\nInstallation  %s\n", dir.Path(), installation)
	if background {
		return b.String(), nil
	}
	switch {
	case cfg.noAuth:
		token = ""
	case cfg.authTokenFile != "":
		token = "YOUR_TOKEN"
	}
	fmt.Fprintf(&b, "\nFor the configuration of an MCP client:\n%s", httpserver.ClientConfig(url, token))
	fmt.Fprintf(&b, "Or, for a client that starts its servers itself: mcp-sandbox stdio --data-dir %s\n\n", shellWord(dir.Path()))
	return b.String(), nil
}
