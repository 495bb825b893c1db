package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
)

func newTemporal(p process) *cobra.Command {
	var cfg temporalConfig
	var insecure bool
	c := &cobra.Command{
		Use:   "temporal",
		Short: "Run the embedded Temporal alone",
		Long:  "Run the embedded Temporal alone. Other programs, such as serve and worker with --temporal-address, reach it with TEMPORAL_CONFIG_FILE set to temporal.toml in the data dir.",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := configure(c, p); err != nil {
				return err
			}
			log, err := newLogger(c, p)
			if err != nil {
				return err
			}
			if err := cfg.check(insecure); err != nil {
				return err
			}
			path, err := dataDir(c, p)
			if err != nil {
				return usageError{err}
			}
			return runTemporal(c.Context(), path, cfg, p, log)
		},
	}
	f := c.Flags()
	f.String("data-dir", "", "directory for its database (default as for serve)")
	f.StringVar(&cfg.listen, "temporal-listen", temporaldev.DefaultListen, "address of the frontend")
	f.BoolVar(&insecure, "insecure-http", false, "allow a listen address beyond loopback, where the secret goes in clear text")
	f.StringVar(&cfg.namespace, "temporal-namespace", "", "namespace (default \"default\")")
	return c
}

func runTemporal(ctx context.Context, path string, cfg temporalConfig, p process, log *slog.Logger) error {
	dir, err := datadir.Open(path, datadir.Options{Exclusive: true, Purpose: "an embedded Temporal"})
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	server, err := startEmbedded(ctx, cfg, dir, log)
	if err != nil {
		return err
	}
	defer server.Stop()
	if _, err := fmt.Fprintf(p.stderr, "Temporal      %s\nProfile       %s\n", server.Address(), dir.Path(temporaldev.ProfileFile)); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Failed():
		return fmt.Errorf("the embedded Temporal broke down: %w", err)
	}
}
