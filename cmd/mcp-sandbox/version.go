package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func newVersion(p process) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(p.stdout, "mcp-sandbox %s %s/%s %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.Version())
			return err
		},
	}
}
