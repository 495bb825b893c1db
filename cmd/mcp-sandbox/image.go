package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	defaultimage "github.com/mcp-sandbox/mcp-sandbox/images/default"
)

// customTag is the default name of an image with further packages. It is not
// the default image's: `make setup` brings that one back to its own recipe.
const customTag = "mcp-sandbox/custom:latest"

// buildEnds is what a build that is interrupted gets to remove its folder.
const buildEnds = 10 * time.Second

func newImage(p process) *cobra.Command {
	c := &cobra.Command{Use: "image", Short: "Make images for sandboxes"}
	var packages []string
	var tag string
	build := &cobra.Command{
		Use:   "build",
		Short: "Build the default image, or one like it with further Debian packages",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := configure(c, p); err != nil {
				return err
			}
			if tag == "" {
				tag = defaultimage.Ref
				if len(packages) > 0 {
					tag = customTag
				}
			}
			return buildImage(c.Context(), p, tag, packages)
		},
	}
	build.Flags().StringSliceVar(&packages, "packages", nil, "Debian packages to add, such as nodejs,npm")
	build.Flags().StringVar(&tag, "tag", "", "name of the image (default "+defaultimage.Ref+", with --packages "+customTag+")")
	c.AddCommand(build)
	return c
}

// buildImage runs the recipe that the binary carries.
func buildImage(ctx context.Context, p process, tag string, packages []string) error {
	dir, err := os.MkdirTemp("", "mcp-sandbox-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	script := filepath.Join(dir, "build.sh")
	if err := os.WriteFile(script, defaultimage.Script, 0o600); err != nil {
		return err
	}
	args := []string{script, "--tag", tag}
	if len(packages) > 0 {
		args = append(args, "--packages", strings.Join(packages, ","))
	}
	cmd := exec.CommandContext(ctx, "bash", args...) // our own script; it checks its arguments
	log := newBuildLog(p.stderr)
	cmd.Stdout, cmd.Stderr = io.Discard, log // its stdout is the name that we gave
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, buildEnds
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() { log.tick(done) })
	err = cmd.Run()
	close(done)
	ticking.Wait()
	log.end(err != nil)
	if err != nil {
		return fmt.Errorf("build image %s: %w", tag, err)
	}
	if tag == defaultimage.Ref {
		return nil
	}
	_, err = fmt.Fprintf(p.stderr, "For sessions that ask for no image: mcp-sandbox serve --default-image %s\n", tag)
	return err
}
