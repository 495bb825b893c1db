package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/internal/access"
)

func newToken(p process) *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Make tokens for the owners of a shared server"}
	var file string
	fresh := &cobra.Command{
		Use:   "new OWNER",
		Short: "Make a token for an owner",
		Long: "Make a token for an owner. stdout gets the token, which is shown this once and kept nowhere; stderr gets the line for serve's " +
			"--auth-token-file, which holds the token's SHA-256 only. A server that runs takes a new line within a second.",
		Args: exactly(1, "one owner"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := configure(c, p); err != nil {
				return err
			}
			if err := access.CheckOwner(args[0]); err != nil {
				return usageError{err}
			}
			return newOwnerToken(p, args[0], file)
		},
	}
	fresh.Flags().StringVar(&file, "file", "", "token file to append the line to; made (0600) if it is not there")
	c.AddCommand(fresh)
	return c
}

func newOwnerToken(p process, owner, file string) error {
	token, hash := access.NewToken()
	line, note := owner+":"+hash, ""
	if file != "" {
		if err := appendLine(file, line); err != nil {
			return fmt.Errorf("token file: %w", err)
		}
		note = "Added to " + file + ":\n"
	}
	if _, err := fmt.Fprintln(p.stdout, token); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stderr, "%s%s\n", note, line)
	return err
}

// appendLine adds a line to a file, made with mode 0600 if it is not there. Of
// several at once each adds its own; one that fails leaves the file as it was. The
// file stays the same one, so that its owner, mode and links do.
func appendLine(path, line string) (err error) {
	// Without O_NONBLOCK the opening of a pipe would wait for ever.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }() // gives the lock back
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s has mode %#o, so that others can write it, and no server would use it; run: chmod go-w %s",
			path, info.Mode().Perm(), shellWord(path))
	}
	text := line + "\n"
	if size := info.Size(); size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if last[0] != '\n' {
			text = "\n" + text
		}
	}
	// One write: a server that reads meanwhile sees all of the line or none.
	if _, err := f.WriteString(text); err != nil {
		return errors.Join(err, f.Truncate(info.Size()))
	}
	return f.Sync()
}
