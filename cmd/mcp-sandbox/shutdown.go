package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func newShutdown(p process) *cobra.Command {
	c := &cobra.Command{
		Use:   "shutdown",
		Short: "End the server of a data dir, in the background or not",
		Long: "End the server of a data dir, whether it runs in the background or was started with serve, and return when it has ended. " +
			"Its sessions and their commands go on. A client of mcp-sandbox stdio that waits for an answer, or asks again, starts it anew.",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := configure(c, p); err != nil {
				return err
			}
			log, err := newLogger(c, p)
			if err != nil {
				return err
			}
			dir, err := dataDir(c, p)
			if err != nil {
				return usageError{err}
			}
			if dir, err = filepath.Abs(dir); err != nil {
				return err
			}
			launcher, err := newLauncher(dir, "", log)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), changeTimeout)
			defer cancel()
			h, ran, err := launcher.Shutdown(ctx, fmt.Sprintf("mcp-sandbox shutdown, pid %d", os.Getpid()))
			if err != nil {
				return err
			}
			text := fmt.Sprintf("no server runs on the data dir %s\n", dir)
			if ran {
				text = fmt.Sprintf("the server of the data dir %s has ended (version %s, pid %d); its sessions go on\n", dir, h.Version, h.PID)
			}
			_, err = fmt.Fprint(p.stdout, text)
			return err
		},
	}
	c.Flags().String("data-dir", "", "data dir of the server (default as for serve)")
	return c
}
