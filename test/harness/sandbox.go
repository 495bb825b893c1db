package harness

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"
)

// Pending is a call on its way.
type Pending struct {
	done   chan struct{}
	result Result
	err    error
	took   time.Duration
}

// Go calls a tool and does not wait for the result. callID may be "".
func (c *Client) Go(t *testing.T, callID, tool string, args Args) *Pending {
	t.Helper()
	p := &Pending{done: make(chan struct{})}
	ctx, began := t.Context(), time.Now()
	go func() {
		defer close(p.done)
		p.result, p.err = c.Try(ctx, callID, tool, args)
		p.took = time.Since(began)
	}()
	return p
}

// Wait waits for the result, of any kind, and tells how long the call took.
func (p *Pending) Wait(t *testing.T) (Result, time.Duration) {
	t.Helper()
	<-p.done
	require.NoError(t, p.err)
	return p.result, p.took
}

// Timed is Call with the time it took.
func (c *Client) Timed(t *testing.T, tool string, args Args) (Result, time.Duration) {
	t.Helper()
	return c.Go(t, "", tool, args).Wait(t)
}

// CutStream kills the program at the sandbox's end of the stream between host
// and guest, and nothing else. It goes through the engine, not by a process ID
// of this machine, so that it works with any engine and without being root.
func (s *Server) CutStream(t *testing.T, sessionID string) {
	t.Helper()
	// Its own shell's command line begins with another word.
	out := s.AsRoot(t, sessionID, `for p in /proc/[0-9]*; do
	case "$(tr '\0' ' ' 2>/dev/null <$p/cmdline)" in "/.sandbox/guest dial-stdio "*) kill -9 ${p#/proc/} && echo cut;; esac
done`)
	require.Contains(t, out, "cut", "no stream found")
}

// AsRoot runs a shell script in a sandbox past the guest, as root, and gives
// what it prints.
func (s *Server) AsRoot(t *testing.T, sessionID, script string) string {
	t.Helper()
	ctx, id := t.Context(), s.Container(t, sessionID).ID
	created, err := s.docker.ContainerExecCreate(ctx, id, container.ExecOptions{
		User: "0", Cmd: []string{"/bin/sh", "-c", script}, AttachStdout: true, AttachStderr: true, Tty: true, // one stream
	})
	require.NoError(t, err)
	attached, err := s.docker.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{Tty: true})
	require.NoError(t, err)
	defer attached.Close()
	out, err := io.ReadAll(attached.Reader)
	require.NoError(t, err)
	return string(out)
}

// EngineCopy tells how long the engine itself takes to copy a folder into a
// sandbox, to /tmp.
func (s *Server) EngineCopy(t *testing.T, sessionID, dir string) time.Duration {
	t.Helper()
	began := time.Now()
	r, w := io.Pipe()
	go func() {
		archive := tar.NewWriter(w)
		err := archive.AddFS(os.DirFS(dir))
		w.CloseWithError(errors.Join(err, archive.Close()))
	}()
	require.NoError(t, s.docker.CopyToContainer(t.Context(), s.Container(t, sessionID).ID, "/tmp", r, container.CopyToContainerOptions{}))
	return time.Since(began)
}

// KillContainer kills a session's container behind the server's back.
func (s *Server) KillContainer(t *testing.T, sessionID string) {
	t.Helper()
	require.NoError(t, s.docker.ContainerKill(t.Context(), s.Container(t, sessionID).ID, "KILL"))
}

// RemoveContainer takes a session's container away behind the server's back.
func (s *Server) RemoveContainer(t *testing.T, sessionID string) {
	t.Helper()
	id := s.Container(t, sessionID).ID
	require.NoError(t, s.docker.ContainerRemove(t.Context(), id, container.RemoveOptions{Force: true}))
}
