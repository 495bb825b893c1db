package background

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/internal/datadir"
)

const (
	// LogFile is what a server in the background prints, in the data dir (0600);
	// from a size on it is moved to LogFile.1 when the next one starts.
	LogFile    = "server.log"
	maxLogSize = 10 << 20
	// tailSize is how much of it an error shows.
	tailSize = 4 << 10
)

// child is a server that was started here.
type child struct {
	pid    int
	log    string
	offset int64 // where its part of the log begins
	done   chan struct{}
	code   int // once done is closed
}

func (l *Launcher) logPath() string { return filepath.Join(l.DataDir, LogFile) }

// start starts the server as a process of its own: it outlives this one, and has
// no terminal.
func (l *Launcher) start() (*child, error) {
	dir, err := datadir.Open(l.DataDir, datadir.Options{}) // makes it, or refuses it with what to do
	if err != nil {
		return nil, err
	}
	_ = dir.Close() // not exclusive: nothing to give back
	log, err := openLog(l.logPath())
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	offset, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("the server's log: %w", err)
	}
	cmd := l.Command()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	c := &child{pid: cmd.Process.Pid, log: l.logPath(), offset: offset, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.code = exitCode(cmd.Wait())
	}()
	return c, nil
}

func exitCode(err error) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode() // -1 of a signal
	}
	if err != nil {
		return -1
	}
	return 0
}

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogSize {
		if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the server's log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) //nolint:gosec // the path is ours
	if err != nil {
		return nil, fmt.Errorf("the server's log: %w", err)
	}
	return f, nil
}

// ended tells whether the process has ended, and its exit code.
func (c *child) ended() (code int, ended bool) {
	select {
	case <-c.done:
		return c.code, true
	default:
		return 0, false
	}
}

// patience is how long end waits for a server that has nothing to end yet.
const patience = time.Second

// end ends the process, if it has not ended by itself.
func (c *child) end() {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if _, ended := c.ended(); ended {
			return // its pid may be another's
		}
		_ = syscall.Kill(c.pid, signal) // one that ended just now
		select {
		case <-c.done:
		case <-time.After(patience):
		}
	}
}

func (c *child) failure() error {
	return fmt.Errorf("the server could not be started (exit code %d); mcp-sandbox doctor finds out more. The end of its log, %s:\n%s", c.code, c.log, c.tail())
}

// tail is the end of what it printed.
func (c *child) tail() string {
	f, err := os.Open(c.log)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	from := c.offset
	if size-from > tailSize || from > size {
		from = max(0, size-tailSize)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, from, tailSize))
	if err != nil {
		return err.Error()
	}
	if from > c.offset { // not in mid-line
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return strings.TrimRight(string(text), "\n")
}
