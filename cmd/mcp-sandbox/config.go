package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
)

// envPrefix starts the environment variable of a flag: --data-dir is
// MCP_SANDBOX_DATA_DIR.
const envPrefix = "MCP_SANDBOX_"

// configure fills in the flags that the command line did not set: from the
// environment, else from the configuration file, else they keep their defaults.
func configure(c *cobra.Command, p process) error {
	err := eachUnset(c, func(f *pflag.Flag) error {
		name := envName(f.Name)
		if v := p.getenv(name); v != "" {
			if err := c.Flags().Set(f.Name, v); err != nil {
				return usagef("%s=%q: %w", name, v, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	file, values, err := readConfig(c, p)
	if err != nil {
		return err
	}
	for key, v := range values {
		if c.Root().PersistentFlags().Lookup(key) == nil && !flagOfAny(c.Root(), key) {
			return usagef("%s: unknown key %q; keys are the names of flags", file, key)
		}
		f := c.Flags().Lookup(key)
		if f == nil || f.Changed {
			continue // another command's, or set elsewhere
		}
		if err := c.Flags().Set(key, flagText(v)); err != nil {
			return usagef("%s: key %q: %w", file, key, err)
		}
	}
	return nil
}

// eachUnset visits the flags that were not set, in their order.
func eachUnset(c *cobra.Command, visit func(*pflag.Flag) error) error {
	var errs []error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed && f.Name != "help" {
			errs = append(errs, visit(f))
		}
	})
	return errors.Join(errs...)
}

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readConfig reads the configuration file; one that nobody named need not exist.
func readConfig(c *cobra.Command, p process) (file string, values map[string]any, err error) {
	file, err = c.Flags().GetString("config")
	if err != nil {
		return "", nil, err
	}
	named := file != ""
	if !named {
		dir, err := dataDir(c, p)
		if err != nil {
			return "", nil, nil //nolint:nilerr // no place where a file could be; a command that needs the data dir says so
		}
		file = filepath.Join(dir, "config.toml")
	}
	b, err := os.ReadFile(file)
	if !named && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) { // datadir tells what is wrong with it
		return file, nil, nil
	}
	if err != nil {
		return file, nil, usagef("configuration file: %w", err)
	}
	if err := toml.Unmarshal(b, &values); err != nil {
		return file, nil, usagef("%s: %w", file, err)
	}
	return file, values, nil
}

// dataDir is the data dir's path as far as flag, environment and default say,
// also for a command without the flag.
func dataDir(c *cobra.Command, p process) (string, error) {
	if f := c.Flags().Lookup("data-dir"); f != nil && f.Value.String() != "" {
		return f.Value.String(), nil
	}
	if dir := p.getenv(envName("data-dir")); dir != "" {
		return dir, nil
	}
	return datadir.Default(p.getenv)
}

// given are the flags on the command line itself. Call it before configure.
func given(c *cobra.Command) map[string]bool {
	set := map[string]bool{}
	c.Flags().Visit(func(f *pflag.Flag) { set[f.Name] = true })
	return set
}

// useless refuses flags that would have no effect beside another: whoever wrote
// them expects one. The same settings in the environment or a file may be meant
// for other commands, and are skipped.
func useless(given map[string]bool, beside string, names ...string) error {
	for _, name := range names {
		if given[name] {
			return usagef("--%s has no effect with --%s; leave one of them off", name, beside)
		}
	}
	return nil
}

// flagOfAny tells whether any command has this flag, so that one file serves
// them all.
func flagOfAny(c *cobra.Command, name string) bool {
	return c.Flags().Lookup(name) != nil ||
		slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return flagOfAny(sub, name) })
}

// flagText writes a TOML value as it would stand on the command line.
func flagText(v any) string {
	list, ok := v.([]any)
	if !ok {
		return fmt.Sprint(v)
	}
	parts := make([]string, len(list))
	for i, e := range list {
		parts[i] = fmt.Sprint(e)
	}
	return strings.Join(parts, ",")
}
