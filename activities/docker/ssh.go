package docker

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"sync"
	"time"
)

// sshCommand is what the docker command runs to reach an engine over ssh: the
// remote docker command joins its stdio to the engine's socket. Keys, jump hosts
// and connection sharing are ssh's own configuration; it never prompts.
func sshCommand(address string) ([]string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("%q is no ssh://[user@]host[:port]", address)
	}
	if _, ok := u.User.Password(); ok || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return nil, fmt.Errorf("%q is no ssh://[user@]host[:port]: use ssh's own configuration for more", address)
	}
	argv := []string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30"}
	if name := u.User.Username(); name != "" {
		argv = append(argv, "-l", name)
	}
	if port := u.Port(); port != "" {
		argv = append(argv, "-p", port)
	}
	return append(argv, "--", u.Hostname(), "docker", "system", "dial-stdio"), nil
}

// dialCommand runs a command and gives its stdio as a connection. The command
// outlives ctx; it ends when the connection is closed.
func dialCommand(argv []string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the operator's own engine address
	stdin, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	said := &head{}
	cmd.Stderr = said
	cmd.WaitDelay = sshEnds // ssh's own background process may hold stderr
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("reach the engine over ssh: %w", err)
	}
	return &commandConn{cmd: cmd, cancel: cancel, in: stdin, out: stdout, said: said, done: make(chan struct{})}, nil
}

// commandConn has no deadlines: closing it ends what waits.
type commandConn struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	in     io.WriteCloser
	out    io.ReadCloser
	said   *head
	once   sync.Once
	done   chan struct{} // closed when it has ended and been waited for
}

// sshEnds is how long a command that has closed its stdout may take to end.
const sshEnds = time.Second

// ended waits for the command in the background, once.
func (c *commandConn) ended() <-chan struct{} {
	c.once.Do(func() {
		go func() {
			defer close(c.done)
			_ = c.cmd.Wait() // ended by itself or killed: its error says nothing
		}()
	})
	return c.done
}

func (c *commandConn) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	if err != nil && n == 0 {
		// What it said on stderr is copied by another goroutine, and all there only
		// when it has been waited for.
		select {
		case <-c.ended():
		case <-time.After(sshEnds):
		}
		if text := c.said.String(); text != "" {
			err = fmt.Errorf("%w: ssh: %s", err, text)
		}
	}
	return n, err
}

func (c *commandConn) Write(p []byte) (int, error) { return c.in.Write(p) }

// CloseWrite tells the other end that nothing more comes.
func (c *commandConn) CloseWrite() error { return c.in.Close() }

func (c *commandConn) Close() error {
	_ = c.in.Close()
	c.cancel()
	<-c.ended()
	return nil
}

func (*commandConn) LocalAddr() net.Addr              { return commandAddr{} }
func (*commandConn) RemoteAddr() net.Addr             { return commandAddr{} }
func (*commandConn) SetDeadline(time.Time) error      { return nil }
func (*commandConn) SetReadDeadline(time.Time) error  { return nil }
func (*commandConn) SetWriteDeadline(time.Time) error { return nil }

type commandAddr struct{}

func (commandAddr) Network() string { return "ssh" }
func (commandAddr) String() string  { return "engine" }

// head keeps the start of what is written to it.
type head struct {
	mu   sync.Mutex
	text []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, p[:min(len(p), maxStderr-len(h.text))]...)
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.text)
}
