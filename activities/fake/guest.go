package fake

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
	"github.com/mcp-sandbox/mcp-sandbox/guest/supervisor"
)

// First arguments that turn a test binary into a guest. The supervisor waits for
// every child of its process, so it needs one of its own.
const (
	argGuest  = "mcp-sandbox-fake-guest"
	argFileOp = "mcp-sandbox-fake-file-op"
)

// A test binary becomes a guest before it looks at its flags or runs a test, and
// without a line in anybody's TestMain that could be forgotten.
func init() {
	if len(os.Args) < 2 {
		return
	}
	var err error
	switch os.Args[1] {
	case argGuest:
		err = serveGuest(os.Args[2])
	case argFileOp:
		err = files.Serve(os.Stdin, os.Stdout)
	default:
		return
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "fake guest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// guestOptions is what a guest process is told.
type guestOptions struct {
	Session     string
	Incarnation int
	State       string
	Cgroup      string
	Home        string
}

// serveGuest is the whole life of a guest process. It ends on TERM, and at the
// end of its stdin: when the test is gone, however that came.
func serveGuest(options string) error {
	var told guestOptions
	if err := json.Unmarshal([]byte(options), &told); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	s, err := supervisor.New(supervisor.Options{
		Fence:      guest.Fence{Session: told.Session, Incarnation: told.Incarnation},
		State:      told.State,
		CgroupRoot: told.Cgroup,
		Home:       told.Home,
		Env:        os.Environ(),
		PeerUID:    uint32(os.Geteuid()), //nolint:gosec // an ID
		FileOp:     []string{"/proc/self/exe", argFileOp},
		Log:        slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end <- syscall.SIGTERM
	}()
	go func() {
		<-end
		_ = s.Close()
	}()
	return s.Serve()
}
