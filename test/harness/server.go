package harness

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Server is a running `mcp-sandbox serve`.
type Server struct {
	URL     string // of MCP
	Token   string // of the data dir's owner
	DataDir string

	t      *testing.T
	flags  []string
	docker *client.Client
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended

	lastInstallation string // of the process before, when this one has not said yet

	mu  sync.Mutex
	log strings.Builder
}

// Start starts a server on free ports with the test image as its default, and
// removes it and all its sandboxes when the test ends. flags come on top.
func Start(t *testing.T, flags ...string) *Server {
	t.Helper()
	s := &Server{t: t, flags: flags, DataDir: filepath.Join(t.TempDir(), "data"), docker: Docker(t)}
	t.Cleanup(s.sweep)
	s.Launch()
	return s
}

// Launch starts the process, again after Kill or Stop, on the same data dir.
func (s *Server) Launch() {
	s.t.Helper()
	args := append([]string{
		"serve", "--data-dir", s.DataDir, "--listen", "127.0.0.1:0", "--temporal-ui", "off", "--default-image", TestImage,
	}, s.flags...)
	s.URL = ""
	s.Exec(args...)
	s.t.Cleanup(s.Kill)
	s.await("the server to print its URL", 60*time.Second, func() bool { return s.find("MCP ") != "" })
	s.URL = strings.Fields(s.find("MCP "))[1]
	token, err := os.ReadFile(filepath.Join(s.DataDir, "token"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.Token = strings.TrimSpace(string(token))
	s.installation()
	s.await("the server to be ready", 30*time.Second, s.Ready)
}

// Exec starts the binary with these arguments and collects what it prints.
func (s *Server) Exec(args ...string) {
	s.t.Helper()
	s.mu.Lock()
	s.log.Reset()
	s.mu.Unlock()
	cmd := exec.Command(Binary(s.t), args...)
	out, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			s.mu.Lock()
			s.log.WriteString(line)
			s.mu.Unlock()
			if err != nil {
				break
			}
		}
		_ = cmd.Wait()
	}()
	s.cmd, s.done = cmd, done
}

// Log gives what the process has printed so far.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func (s *Server) find(prefix string) string {
	for line := range strings.Lines(s.Log()) {
		if strings.HasPrefix(line, prefix) && strings.HasSuffix(line, "\n") {
			return line
		}
	}
	return ""
}

// Ready tells whether /readyz says so.
func (s *Server) Ready() bool {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, strings.TrimSuffix(s.URL, "/mcp")+"/readyz", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK
}

// await waits for a condition; there is nothing to be notified by.
func (s *Server) await(what string, most time.Duration, ok func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(most)
	for !ok() {
		select {
		case <-s.done:
			s.t.Fatalf("waiting for %s: the process has ended:\n%s", what, s.Log())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("waited %s for %s:\n%s", most, what, s.Log())
		}
	}
}

// PID is the process's.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill kills the process with SIGKILL and waits for its end.
func (s *Server) Kill() { s.signal(syscall.SIGKILL) }

// Stop ends the process with SIGTERM and waits for its end.
func (s *Server) Stop() { s.signal(syscall.SIGTERM) }

func (s *Server) signal(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.done:
	case <-time.After(30 * time.Second):
		_ = s.cmd.Process.Kill()
		s.t.Errorf("the server did not end within 30 s of %s:\n%s", sig, s.Log())
		<-s.done
	}
}

// Containers lists the containers of a session, running or not.
func (s *Server) Containers(sessionID string) []container.Summary {
	s.t.Helper()
	list, err := s.docker.ContainerList(context.Background(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", session.LabelSession+"="+sessionID)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// sweep removes what the sessions of this server left at the engine. A test
// that means to leave nothing checks that itself, before.
func (s *Server) sweep() {
	id := s.installation()
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ours := filters.NewArgs(filters.Arg("label", session.LabelInstallation+"="+id))
	containers, _ := s.docker.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	for _, c := range containers {
		_ = s.docker.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	}
	s.sweepRest(ctx, ours)
}

func (s *Server) sweepRest(ctx context.Context, ours filters.Args) {
	if volumes, err := s.docker.VolumeList(ctx, volumeFilter(ours)); err == nil {
		for _, v := range volumes.Volumes {
			_ = s.docker.VolumeRemove(ctx, v.Name, true)
		}
	}
	networks, _ := s.docker.NetworkList(ctx, network.ListOptions{Filters: ours})
	for _, n := range networks {
		_ = s.docker.NetworkRemove(ctx, n.ID)
	}
	images, _ := s.docker.ImageList(ctx, image.ListOptions{All: true, Filters: ours})
	for _, i := range images {
		_, _ = s.docker.ImageRemove(ctx, i.ID, image.RemoveOptions{Force: true, PruneChildren: true})
	}
}
