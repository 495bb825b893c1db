package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
	"github.com/mcp-sandbox/mcp-sandbox/telemetry"
)

func newWorker(p process) *cobra.Command {
	var temporal temporalConfig
	var host hostConfig
	c := &cobra.Command{
		Use:   "worker",
		Short: "Run the worker of one Docker Engine for a Temporal that runs elsewhere",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := configure(c, p); err != nil {
				return err
			}
			log, err := newLogger(c, p)
			if err != nil {
				return err
			}
			if temporal.address == "" {
				return usagef("--temporal-address: say which Temporal to work for")
			}
			if err := host.check(); err != nil {
				return err
			}
			path, err := dataDir(c, p)
			if err != nil {
				return usageError{err}
			}
			return work(c.Context(), path, temporal, host, p, log)
		},
	}
	c.Flags().String("data-dir", "", "directory for this host's identity (default as for serve)")
	temporal.flags(c.Flags(), false)
	host.flags(c.Flags())
	return c
}

// work runs a worker until ctx ends.
func work(ctx context.Context, path string, temporal temporalConfig, host hostConfig, p process, log *slog.Logger) error {
	dir, err := datadir.Open(path, datadir.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	tel, err := telemetry.Start(ctx, telemetry.Options{Version: version, Getenv: p.getenv, Logger: log})
	if err != nil {
		return err
	}
	defer tel.Close(context.WithoutCancel(ctx))
	conn, err := openTemporal(ctx, temporal, dir, log)
	if err != nil {
		return err
	}
	defer conn.Close()
	host.blobDir = cmp.Or(host.blobDir, dir.Path(blobsName))
	w, err := startHostWorker(ctx, host, conn, dir.HostID(), newSessionClient(conn, dir.Secret(), 0, log), p.getenv, log)
	if err != nil {
		return err
	}
	defer w.stop()
	if _, err := fmt.Fprintf(p.stderr, "Worker of host %s for Temporal at %s\n", w.backend.HostID(), temporal.address); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
