package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
	"github.com/mcp-sandbox/mcp-sandbox/guest/supervisor"
)

const (
	defaultState = "/.sandbox/state"
	// defaultGrace is added to --lifetime: the host ends a session first, the
	// guest only when there is no host any more. In seconds.
	defaultGrace = 60
	// lockWait is how long the last incarnation's end may overlap this start.
	lockWait = 5 * time.Second
)

type initFlags struct {
	opts     supervisor.Options
	network  networkFlags
	lifetime time.Duration
	uid, gid uint
	name     string
}

func parseInit(args []string) (initFlags, error) {
	var f initFlags
	set := flag.NewFlagSet("init", flag.ContinueOnError)
	set.StringVar(&f.opts.Fence.Session, "session", "", "session ID (required)")
	set.IntVar(&f.opts.Fence.Incarnation, "incarnation", 0, "number of the session's container, from 1 (required)")
	set.StringVar(&f.opts.State, "state", defaultState, "directory of journal, logs and socket")
	lifetime := set.Int64("lifetime", 0, "seconds after which, and --lifetime-grace, the guest ends by itself; 0 is never")
	grace := set.Int64("lifetime-grace", defaultGrace, "seconds that the host has to end the session first")
	set.StringVar(&f.opts.Home, "home", "/home/sandbox", "HOME of commands")
	set.StringVar(&f.opts.WorkDir, "workdir", "", "where commands start and relative paths begin (default HOME)")
	set.UintVar(&f.uid, "uid", 1000, "user ID of commands")
	set.UintVar(&f.gid, "gid", 1000, "group ID of commands")
	set.Int64Var(&f.opts.LogCap, "log-cap", supervisor.DefaultLogCap, "bytes of one output stream that are kept")
	set.Int64Var(&f.opts.LogTotal, "log-total", supervisor.DefaultLogTotal, "bytes of all output that are kept")
	f.network.flags(set)
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if *lifetime > 0 {
		f.lifetime = time.Duration(*lifetime+*grace) * time.Second
	}
	switch {
	case set.NArg() > 0:
		return f, fmt.Errorf("init takes no argument %q", set.Arg(0))
	case f.uid == 0 || f.gid == 0 || f.uid > 1<<31 || f.gid > 1<<31:
		return f, errors.New("--uid and --gid must be those of an ordinary user")
	case *lifetime < 0 || *grace < 0 || f.opts.LogCap <= 0 || f.opts.LogTotal <= 0:
		return f, errors.New("--lifetime and --lifetime-grace must not be negative, --log-cap and --log-total be positive")
	}
	return f, nil
}

// runInit is PID 1. It returns when the guest was told to end, or its lifetime
// is over.
func runInit(args []string) error {
	f, err := parseInit(args)
	if err != nil {
		return err
	}
	if err := f.network.apply(context.Background(), f.opts.State); err != nil {
		return err
	}
	// Before anything else: they must be there when the pids cgroup is full.
	runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	supervisor.SpareThreads()
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(64 << 20) // soft: a guest in a full memory cgroup collects harder
	syscall.Umask(0o022)
	if os.Getpid() != 1 {
		// Orphans would go past us else.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become subreaper: %w", err)
		}
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// Caught and forgotten: what is ignored stays so in every command, where a
	// `yes | head` would never end.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
	resetThreadSignals()

	f.opts.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	f.opts.Version = version
	go version() // some milliseconds, off the way of the start
	f.opts.FileOp = []string{
		"/proc/self/exe", "file-op",
		"--uid", strconv.FormatUint(uint64(f.uid), 10), "--gid", strconv.FormatUint(uint64(f.gid), 10),
	}
	f.opts.PeerUID = uint32(os.Geteuid())                                          //nolint:gosec // an ID
	f.opts.Identity = &supervisor.Identity{UID: uint32(f.uid), GID: uint32(f.gid)} //nolint:gosec // checked
	f.setHome()
	return serve(f, signals)
}

func serve(f initFlags, signals <-chan os.Signal) error {
	s, err := open(f.opts)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	f.opts.Log.Info("guest is up", "session", f.opts.Fence.Session, "incarnation", f.opts.Fence.Incarnation)

	ctx, cancel := context.WithCancel(context.Background())
	if f.lifetime > 0 {
		ctx, cancel = context.WithTimeout(ctx, f.lifetime)
	}
	defer cancel()
	select {
	case sig := <-signals:
		f.opts.Log.Info("guest ends", "signal", sig.String())
	case <-ctx.Done():
		f.opts.Log.Warn("guest ends: its lifetime is over")
	case err = <-served:
		f.opts.Log.Error("guest ends: it serves no more", "error", err)
	}
	return errors.Join(err, s.Close())
}

// open waits for the journal's lock: the container before this one may be in
// its last moments.
func open(opts supervisor.Options) (*supervisor.Supervisor, error) {
	deadline := time.Now().Add(lockWait)
	for {
		s, err := supervisor.New(opts)
		if !errors.Is(err, journal.ErrLocked) || time.Now().After(deadline) {
			return s, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// setHome makes the home directory where it is missing, and falls back to /tmp
// and / where that is not possible.
func (f *initFlags) setHome() {
	f.name = userName(f.uid)
	info, err := os.Stat(f.opts.Home)
	if errors.Is(err, os.ErrNotExist) {
		if os.MkdirAll(f.opts.Home, 0o755) == nil { //nolint:gosec // a home, as useradd makes it
			_ = os.Chown(f.opts.Home, int(f.uid), int(f.gid))
		}
	} else if err == nil && !info.IsDir() {
		f.opts.Log.Warn("home is not a directory", "home", f.opts.Home)
	}
	f.opts.Home = firstDir(f.opts.Home, "/tmp", "/")
	if f.opts.WorkDir != "" {
		f.opts.WorkDir = firstDir(f.opts.WorkDir, f.opts.Home)
	}
	// The image's ENV counts, as with docker exec; the session's env comes
	// with each request.
	f.opts.Env = append(os.Environ(), "USER="+f.name, "LOGNAME="+f.name)
}

// firstDir is the first that is a directory. What the guest may not see (it is
// root without DAC_OVERRIDE) is taken as one.
func firstDir(dirs ...string) string {
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if filepath.IsAbs(dir) && (err == nil && info.IsDir() || errors.Is(err, os.ErrPermission)) {
			return dir
		}
	}
	return "/"
}

// userName finds the uid in /etc/passwd.
func userName(uid uint) string {
	file, err := os.Open("/etc/passwd")
	if err == nil {
		defer func() { _ = file.Close() }()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if f := strings.Split(lines.Text(), ":"); len(f) > 2 && f[2] == strconv.FormatUint(uint64(uid), 10) {
				return f[0]
			}
		}
	}
	return "sandbox"
}
