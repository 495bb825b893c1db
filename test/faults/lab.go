package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	docker "github.com/docker/docker/client"

	"github.com/mcp-sandbox/mcp-sandbox/examples/agents/scripted/localserver"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// lab is the system of one round: three processes, each with a data dir of its
// own, and an engine.
type lab struct {
	opts options
	dir  string
	env  []string

	temporal, worker, server *process
	engine                   *daemon // nil when the machine's is used

	api          *docker.Client
	installation string
	address      string // Temporal's
	listen       string // the server's
	url, token   string
}

func openLab(ctx context.Context, opts options) (_ *lab, err error) {
	l := &lab{opts: opts, env: ownEnvironment()}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(context.WithoutCancel(ctx)))
		}
	}()
	if l.opts.binary, err = filepath.Abs(opts.binary); err != nil {
		return l, err
	}
	if l.dir, err = os.MkdirTemp("", "faults-"); err != nil {
		return l, err
	}
	if err := l.openEngine(ctx); err != nil {
		return l, err
	}
	for _, part := range []struct {
		process **process
		name    string
		ready   func(context.Context, string) bool
		start   func() error
	}{
		{&l.temporal, "temporal", l.temporalReady, l.startTemporal},
		{&l.worker, "worker", workerReady, l.startWorker},
		{&l.server, "server", l.serverReady, l.startServer},
	} {
		p, err := l.newProcess(part.name, part.ready)
		if err != nil {
			return l, err
		}
		*part.process = p
		if err := errors.Join(part.start(), p.await(ctx)); err != nil {
			return l, err
		}
	}
	token, err := os.ReadFile(filepath.Join(l.dir, "server", "token"))
	l.token = strings.TrimSpace(string(token))
	return l, err
}

func (l *lab) openEngine(ctx context.Context) (err error) {
	shared, err := localserver.Engine()
	if err != nil {
		return err
	}
	if _, err := shared.Ping(ctx); err != nil {
		return fmt.Errorf("no Docker Engine answers (make setup): %w", err)
	}
	l.api = shared
	if !l.opts.dockerd {
		return nil
	}
	if l.engine, err = openDaemon(ctx, l, shared); err != nil {
		return err
	}
	l.api = l.engine.api
	l.env = append(l.env, "DOCKER_HOST="+l.engine.host)
	return shared.Close()
}

func (l *lab) newProcess(name string, ready func(context.Context, string) bool) (*process, error) {
	dir := l.dir
	if l.opts.logs != "" {
		dir = l.opts.logs
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, l.opts.seed))
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // where the user said
	return &process{name: name, env: l.env, log: log, ready: ready}, err
}

// ownEnvironment is this process's without settings that somebody made for a
// server of theirs.
func ownEnvironment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MCP_SANDBOX_") && !strings.HasPrefix(v, "TEMPORAL_") {
			env = append(env, v)
		}
	}
	return env
}

// The parts keep their addresses over all their lives.

func (l *lab) startTemporal() error {
	listen := l.address
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	return l.temporal.launch(l.opts.binary, "temporal", "--data-dir", filepath.Join(l.dir, "temporal"), "--temporal-listen", listen)
}

func (l *lab) startWorker() error {
	// Short runs, so that many calls are sent again to a later run, where Temporal
	// does not know them; and a reaper that comes often.
	return l.worker.launch(l.opts.binary, "worker", "--data-dir", filepath.Join(l.dir, "worker"),
		"--temporal-address", l.address, "--default-image", l.opts.image, "--events-per-run", "400",
		"--reap-every", reapEvery.String(), "--reap-min-age", reapMinAge.String())
}

func (l *lab) startServer() error {
	listen := l.listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	return l.server.launch(l.opts.binary, "serve", "--no-worker", "--data-dir", filepath.Join(l.dir, "server"),
		"--temporal-address", l.address, "--listen", listen, "--max-sessions", "0")
}

func (l *lab) temporalReady(_ context.Context, printed string) bool {
	address, profile := word(printed, "Temporal"), word(printed, "Profile")
	if profile == "" {
		return false
	}
	if l.address == "" {
		l.address = address
		l.env = append(l.env, "TEMPORAL_CONFIG_FILE="+profile)
	}
	return true
}

func workerReady(_ context.Context, printed string) bool {
	return word(printed, "Worker of host") != ""
}

func (l *lab) serverReady(ctx context.Context, printed string) bool {
	url, installation := word(printed, "MCP"), word(printed, "Installation")
	if url == "" || installation == "" {
		return false
	}
	if l.url == "" {
		l.url, l.installation = url, installation
		l.listen = strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/mcp")+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// ours is the label of all that this installation has at the engine.
func (l *lab) ours() string { return session.LabelInstallation + "=" + l.installation }

// close ends the processes and removes all that the round made.
func (l *lab) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var errs []error
	for _, p := range []*process{l.server, l.worker, l.temporal} {
		errs = append(errs, p.stop())
		if p != nil {
			_ = p.log.Close()
		}
	}
	if l.api != nil {
		if l.installation != "" {
			errs = append(errs, localserver.Remove(ctx, l.api, l.ours()))
		}
		_ = l.api.Close()
	}
	if l.engine != nil {
		errs = append(errs, l.engine.close(ctx))
	}
	if l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir)) //nolint:gosec // made above
	}
	return errors.Join(errs...)
}
