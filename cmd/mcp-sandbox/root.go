package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-sandbox/mcp-sandbox/telemetry"
)

// usageError is a fault of the command line or the configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// codeError is an error with an exit code of its own.
type codeError struct {
	error
	code int
}

func (e codeError) Unwrap() error { return e.error }

func exitCode(err error) int {
	if e, ok := errors.AsType[codeError](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return 2
	}
	return 1
}

func newRoot(p process) *cobra.Command {
	root := &cobra.Command{
		Use:           "mcp-sandbox",
		Short:         "Durable sandboxes for LLM agents, over MCP",
		Long:          "mcp-sandbox gives LLM agents a computer over the Model Context Protocol. Each session is a Temporal workflow that owns a Docker sandbox.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w; %s --help lists the flags", err, c.CommandPath())
	})
	root.PersistentFlags().String("config", "", "file of settings (TOML, a key per flag); default <data-dir>/config.toml if it exists")
	root.PersistentFlags().String("log-level", "info", "debug, info, warn or error")
	root.PersistentFlags().Bool("log-json", false, "log as JSON")
	root.AddCommand(newServe(p), newStdio(p), newShutdown(p), newWorker(p), newTemporal(p), newSessions(p), newSnapshots(p), newReap(p), newCopy(p), newToken(p), newDoctor(p), newImage(p), newVersion(p))
	root.SetOut(p.stdout)
	root.InitDefaultCompletionCmd() // now, for refuseArguments to see it
	refuseArguments(root)
	return root
}

// refuseArguments makes an argument that a command does not know an error, and
// not help with exit code 0. A command that only groups others shows them.
func refuseArguments(c *cobra.Command) {
	for _, sub := range c.Commands() {
		refuseArguments(sub)
	}
	if !c.HasSubCommands() {
		if c.Args == nil {
			c.Args = noArguments
		}
		return
	}
	c.Args = noSuchCommand
	c.SuggestionsMinimumDistance = 2
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument %q; %s --help shows its use", c.CommandPath(), args[0], c.CommandPath())
	}
	return nil
}

func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("%s has no command %q; did you mean %s?", c.CommandPath(), args[0], strings.Join(near, " or "))
	}
	return usagef("%s has no command %q; %s --help lists them", c.CommandPath(), args[0], c.CommandPath())
}

// newLogger makes the logger of a command: to stderr, as stdout may be MCP's.
func newLogger(c *cobra.Command, p process) (*slog.Logger, error) {
	text, err := c.Flags().GetString("log-level")
	if err != nil {
		return nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return nil, usagef("--log-level: %q is none of debug, info, warn, error", text)
	}
	o := &slog.HandlerOptions{Level: level}
	if json, err := c.Flags().GetBool("log-json"); err != nil {
		return nil, err
	} else if json {
		return slog.New(telemetry.LogHandler(slog.NewJSONHandler(p.stderr, o))), nil
	}
	return slog.New(telemetry.LogHandler(slog.NewTextHandler(p.stderr, o))), nil
}
