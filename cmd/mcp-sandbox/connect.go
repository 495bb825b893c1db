package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	// connectTimeout bounds the way to Temporal: whoever types a command is told
	// within 3 s that no server runs.
	connectTimeout = 2500 * time.Millisecond
	// askTimeout bounds what only asks, changeTimeout what ends or deletes.
	askTimeout    = 20 * time.Second
	changeTimeout = 2 * time.Minute
)

// operatorCommand is a command that acts on a running installation, over all
// owners.
type operatorCommand struct {
	// check refuses what cannot be before anything is reached. given are the flags
	// on the command line itself: nothing that ends or deletes may come from the
	// environment.
	check func(given map[string]bool, args []string) error
	do    func(ctx context.Context, admin *session.Admin, args []string) error
	// timeout bounds do.
	timeout time.Duration
}

// install makes c run the command.
func (o operatorCommand) install(p process, c *cobra.Command) *cobra.Command {
	var cfg temporalConfig
	connectFlags(c, &cfg)
	c.RunE = func(c *cobra.Command, args []string) error {
		set := given(c)
		if err := configure(c, p); err != nil {
			return err
		}
		log, err := newLogger(c, p)
		if err != nil {
			return err
		}
		if o.check != nil {
			if err := o.check(set, args); err != nil {
				return err
			}
		}
		dir, err := dataDir(c, p)
		if err != nil && cfg.address == "" {
			return usageError{err}
		}
		conn, err := dialRunning(c.Context(), cfg, dir, log)
		if err != nil {
			return err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(c.Context(), o.timeout)
		defer cancel()
		admin := session.NewAdmin(session.NewClient(session.ClientOptions{Temporal: conn, AnswerWithin: o.timeout, Logger: log}))
		return operatorError(o.do(ctx, admin, args))
	}
	return c
}

// connectFlags say where the Temporal of a running server is.
func connectFlags(c *cobra.Command, cfg *temporalConfig) {
	c.Flags().String("data-dir", "", "data dir of the server (default as for serve)")
	c.Flags().StringVar(&cfg.address, "temporal-address", "",
		"HOST:PORT of the server's Temporal, if it does not embed one; TLS, API key and namespace by Temporal's own environment variables (TEMPORAL_*)")
	c.Flags().StringVar(&cfg.namespace, "temporal-namespace", "", "Temporal namespace (default the server's)")
}

// operatorError gives an error of sessions in the words for an operator.
func operatorError(err error) error {
	if e, ok := errors.AsType[*session.Error](err); ok {
		return errors.New(e.Message)
	}
	return err
}

// dialRunning connects to the Temporal of a running server: the one that the
// flags name, else the one embedded in the server of the data dir. Like serve, it
// takes TEMPORAL_* into account only beside --temporal-address.
func dialRunning(ctx context.Context, cfg temporalConfig, dataDir string, log *slog.Logger) (client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if cfg.address == "" {
		return dialDataDir(ctx, cfg, dataDir, log)
	}
	o, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, usagef("Temporal's environment configuration: %w", err)
	}
	o.HostPort = cfg.address
	c, err := dialOptions(ctx, o, cfg.namespace, log)
	if err != nil {
		return nil, fmt.Errorf("cannot use Temporal at %s (is the address right, and do TEMPORAL_* variables give what it asks for?): %w", cfg.address, err)
	}
	return c, nil
}

func dialDataDir(ctx context.Context, cfg temporalConfig, dataDir string, log *slog.Logger) (client.Client, error) {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, err
	}
	profile := filepath.Join(dataDir, temporaldev.ProfileFile)
	if _, err := os.Stat(profile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data dir: %w; run as its owner, or give another --data-dir", err)
	} else if err != nil {
		return nil, &notRunningError{dataDir: dataDir, cause: err}
	}
	o, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{
		ConfigFilePath: profile, ConfigFileProfile: envconfig.DefaultConfigFileProfile, DisableEnv: true,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w; restart the server, which writes it anew", profile, err)
	}
	// A server that was killed leaves its profile behind.
	tcp, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.HostPort)
	if err != nil {
		return nil, &notRunningError{dataDir: dataDir, cause: err}
	}
	_ = tcp.Close()
	c, err := dialOptions(ctx, o, cfg.namespace, log)
	if notFound := (*serviceerror.NamespaceNotFound)(nil); errors.As(err, &notFound) {
		return nil, fmt.Errorf("the server's Temporal has no namespace %q; leave --temporal-namespace off, or give the server's", cfg.namespace)
	}
	if err != nil { // someone else has the port by now
		return nil, &notRunningError{dataDir: dataDir, cause: err}
	}
	return c, nil
}

// dialOptions connects, and makes sure that the namespace can be used.
func dialOptions(ctx context.Context, o client.Options, namespace string, log *slog.Logger) (client.Client, error) {
	if namespace != "" {
		o.Namespace = namespace
	}
	if o.Namespace == "" {
		o.Namespace = client.DefaultNamespace
	}
	o.Logger, o.DataConverter = sdklog.NewStructuredLogger(log), session.DataConverter()
	c, err := client.DialContext(ctx, o)
	if err != nil {
		return nil, err
	}
	if _, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: o.Namespace}); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// notRunningError says that there is no Temporal to act on.
type notRunningError struct {
	dataDir string
	cause   error
}

func (e *notRunningError) Error() string {
	return fmt.Sprintf("no server runs on the data dir %s; start one with: mcp-sandbox serve --data-dir %s "+
		"(or give the server's --data-dir, or --temporal-address if its Temporal is not embedded)", e.dataDir, shellWord(e.dataDir))
}

func (e *notRunningError) Unwrap() error { return e.cause }
