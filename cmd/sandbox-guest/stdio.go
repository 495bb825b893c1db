package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest/supervisor"
)

// dialWait is how long dial-stdio waits for a guest that is starting.
const dialWait = 5 * time.Second

// runDialStdio joins stdio to the guest's socket. It ends as soon as either
// side does: the host has gone, or the guest has.
func runDialStdio(args []string) error {
	set := flag.NewFlagSet("dial-stdio", flag.ContinueOnError)
	state := set.String("state", defaultState, "directory of the socket")
	if err := set.Parse(args); err != nil {
		return err
	}
	debug.SetGCPercent(-1) // it allocates next to nothing
	conn, err := dial(filepath.Join(*state, supervisor.SocketName))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ends := make(chan error, 2)
	go func() {
		ends <- relay(conn, os.Stdin)
	}()
	go func() {
		ends <- relay(os.Stdout, conn)
	}()
	err = <-ends // the other copy may block for ever; the process ends
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return err
}

// relayBuffer is as much as stands in a pipe or a socket at a time.
const relayBuffer = 128 << 10

// relay copies to the end. io.Copy by itself would splice, which on a pipe that
// blocks, as stdio is, takes several times the processor time.
func relay(w io.Writer, r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, relayBuffer))
	return err
}

func dial(path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialWait)
	defer cancel()
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", path)
		starting := errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
		if err == nil || !starting || ctx.Err() != nil {
			return conn, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, fmt.Errorf("no guest within %s: %w", dialWait, err)
		}
	}
}
