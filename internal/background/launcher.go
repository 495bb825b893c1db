package background

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/internal/control"
	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
)

const (
	defaultWithin = time.Minute
	helloWithin   = 5 * time.Second
	endWithin     = 30 * time.Second
	firstPause    = 10 * time.Millisecond
	lastPause     = 200 * time.Millisecond
)

// ExitInUse is the exit code of a server in the background that found the data
// dir in use: another one was faster.
const ExitInUse = 3

// Launcher knows the server of a data dir. DataDir (absolute) and Command are
// required. Its methods are used one at a time.
type Launcher struct {
	DataDir string
	Self    Version
	// Command makes the command that serves the data dir. Its standard streams,
	// directory and session are set here.
	Command func() *exec.Cmd
	// Within bounds Ensure. Default: 1 min.
	Within time.Duration
	Logger *slog.Logger // default slog.Default

	child *child // the last one started, if it was
}

// Ensure returns when a server that can be used answers, starting one if there is
// none, or replacing an older one. The error of a server that could not be
// started holds the end of its log.
func (l *Launcher) Ensure(ctx context.Context) (control.Hello, error) {
	within := l.Within
	if within <= 0 {
		within = defaultWithin
	}
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		h, err := l.look(limited)
		if err == nil {
			return h, nil
		}
		if again := (*againError)(nil); !errors.As(err, &again) {
			return control.Hello{}, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-limited.Done():
			timer.Stop()
			if ctx.Err() != nil {
				return control.Hello{}, ctx.Err()
			}
			return control.Hello{}, l.late(within, err)
		}
	}
}

// againError is what may be otherwise in a moment.
type againError struct{ cause error }

func (e *againError) Error() string { return e.cause.Error() }
func (e *againError) Unwrap() error { return e.cause }

// look looks once, and does what has to be done.
func (l *Launcher) look(ctx context.Context) (control.Hello, error) {
	h, err := hello(ctx, l.DataDir)
	switch {
	case err == nil:
		return h, l.judge(ctx, h)
	case !control.NotRunning(err):
		return h, &againError{err} // it hangs, or ends just now
	}
	holder, inUse, lockErr := datadir.InUse(l.DataDir)
	switch {
	case lockErr != nil:
		return h, lockErr
	case inUse: // it is starting, or ending
		return h, &againError{fmt.Errorf("%s uses the data dir, and does not answer on its socket", holder)}
	case l.child == nil:
		l.logger().Info("starting a server in the background", "data_dir", l.DataDir, "log", l.logPath())
		l.child, err = l.start()
		if err != nil {
			return h, err
		}
	default:
		if code, ended := l.child.ended(); ended {
			failed := l.child
			l.child = nil
			if code != 0 && code != ExitInUse {
				return h, failed.failure()
			}
		}
	}
	return h, &againError{errors.New("the server is starting")}
}

func hello(ctx context.Context, dataDir string) (control.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, helloWithin)
	defer cancel()
	return control.NewClient(dataDir).Hello(ctx)
}

// judge applies the version rule. It ends a server that is to be replaced.
func (l *Launcher) judge(ctx context.Context, h control.Hello) error {
	l.drop(h.PID)
	newer := l.Self.Newer(Version{h.Version, h.Build})
	switch {
	case h.Background && newer:
		l.logger().Info("replacing the older server in the background", "its_version", h.Version, "its_pid", h.PID, "version", l.Self.Number)
		if err := l.end(ctx, h, "replaced by version "+l.Self.Number); err != nil {
			return err
		}
		return &againError{errors.New("the older server has ended")}
	case !h.Speaks():
		return fmt.Errorf("the server of the data dir %s (version %s, pid %d) and this program (version %s) speak different protocols; "+
			"stop it and start it again with this program, or use its own: sessions go on", l.DataDir, h.Version, h.PID, l.Self.Number)
	}
	return nil
}

// drop forgets the server that was started here. If it is not the one that answers
// it was slower, and must not take the data dir later, when that one ends.
func (l *Launcher) drop(serving int) {
	if l.child != nil && l.child.pid != serving {
		l.child.end()
	}
	l.child = nil
}

// Shutdown ends the server of the data dir and returns when it has given the data
// dir back. ok is false where none runs.
func (l *Launcher) Shutdown(ctx context.Context, reason string) (h control.Hello, ok bool, err error) {
	h, err = hello(ctx, l.DataDir)
	if err == nil {
		return h, true, l.end(ctx, h, reason)
	}
	if !control.NotRunning(err) {
		return h, false, fmt.Errorf("the server does not answer: %w", err)
	}
	holder, inUse, lockErr := datadir.InUse(l.DataDir)
	if lockErr != nil {
		return h, false, lockErr
	}
	if inUse {
		return h, false, fmt.Errorf("%s uses the data dir %s and does not answer on its socket: it is starting or ending, or has none; try again in a moment, or stop it by its pid",
			holder, l.DataDir)
	}
	return h, false, nil
}

// end asks a server to end and waits until the data dir is not its own any more.
func (l *Launcher) end(ctx context.Context, h control.Hello, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	if err := control.NewClient(l.DataDir).Shutdown(ctx, reason); err != nil && !control.NotRunning(err) {
		return fmt.Errorf("end the server (pid %d): %w", h.PID, err)
	}
	for {
		holder, inUse, err := datadir.InUse(l.DataDir)
		if err != nil {
			return err
		}
		if !inUse || holder.PID != 0 && holder.PID != h.PID {
			return nil
		}
		timer := time.NewTimer(firstPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("the server (pid %d) was asked to end and has not yet; kill it: sessions go on", h.PID)
		}
	}
}

// late is the error of a time that is over.
func (l *Launcher) late(within time.Duration, cause error) error {
	if l.child != nil {
		return fmt.Errorf("the server was started and does not answer after %s (%w); its log is %s, and ends:\n%s", within, cause, l.logPath(), l.child.tail())
	}
	return fmt.Errorf("no server of the data dir %s answers after %s: %w; if it does not end, kill it: sessions go on", l.DataDir, within, cause)
}

func (l *Launcher) logger() *slog.Logger {
	if l.Logger == nil {
		return slog.Default()
	}
	return l.Logger
}
