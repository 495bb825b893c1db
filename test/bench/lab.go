package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	docker "github.com/docker/docker/client"
	"github.com/google/uuid"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-sandbox/mcp-sandbox/examples/agents/scripted/localserver"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	// callTimeout is over the 55 s within which the server answers.
	callTimeout = time.Minute
	// closeTimeout bounds the removal of what the bench made.
	closeTimeout = time.Minute
	// rawLabel marks the raw containers and images of one run.
	rawLabel = "mcp-sandbox-bench"
)

// args are a tool's arguments.
type args map[string]any

// lab is what is measured: a server with one session, and a raw container of the
// same image at the same engine.
type lab struct {
	server  *localserver.Server
	mcp     *client.Client
	version string // of the server
	session string

	api    *docker.Client
	engine string // its version
	image  string
	label  string // of all that is raw
	raw    string // ID of the raw container
}

func open(ctx context.Context, opts options) (_ *lab, err error) {
	l := &lab{image: opts.image, label: rawLabel + "=" + uuid.NewString()}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(context.WithoutCancel(ctx), func(string, ...any) {}))
		}
	}()
	if l.api, err = localserver.Engine(); err != nil {
		return nil, err
	}
	v, err := l.api.ServerVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("no Docker Engine answers (make setup): %w", err)
	}
	l.engine = v.Version
	if l.server, err = localserver.Start(ctx, opts.binary, "--default-image", opts.image); err != nil {
		return nil, err
	}
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	if l.session, err = l.start(ctx); err != nil {
		return nil, err
	}
	l.raw, err = l.startRaw(ctx)
	return l, err
}

func (l *lab) connect(ctx context.Context) (err error) {
	l.mcp, err = client.NewStreamableHttpClient(l.server.URL,
		transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + l.server.Token}),
		// Go's default keeps two idle connections to a host and would open one
		// for most calls of eight sessions.
		transport.WithHTTPBasicClient(&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * parallel}}))
	if err != nil {
		return err
	}
	if err := l.mcp.Start(ctx); err != nil {
		return err
	}
	var init mcp.InitializeRequest
	init.Params.ClientInfo = mcp.Implementation{Name: "bench", Version: "1"}
	info, err := l.mcp.Initialize(ctx, init)
	if err != nil {
		return err
	}
	l.version = info.ServerInfo.Version
	return nil
}

// call is one tools/call; a result that is an error is an error.
func (l *lab) call(ctx context.Context, tool string, in args) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = tool, map[string]any(in)
	res, err := l.mcp.CallTool(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	if res.IsError {
		text, _ := mcp.AsTextContent(res.Content[0])
		return nil, fmt.Errorf("%s: %s", tool, text.Text)
	}
	out, _ := res.StructuredContent.(map[string]any)
	return out, nil
}

func (l *lab) start(ctx context.Context) (sessionID string, err error) {
	out, err := l.call(ctx, "start_session", args{"name": "bench"})
	id, _ := out["session_id"].(string)
	return id, err
}

func (l *lab) end(ctx context.Context, sessionID string) error {
	_, err := l.call(ctx, "end_session", args{"session_id": sessionID})
	return err
}

// runTrue is the smallest command, and checks that it ran.
func (l *lab) runTrue(ctx context.Context, sessionID string) error {
	out, err := l.call(ctx, "run_command", args{"session_id": sessionID, "command": "true"})
	if code, ok := out["exit_code"].(float64); err == nil && (!ok || code != 0) {
		return fmt.Errorf("run_command true: %v", out)
	}
	return err
}

// startMany starts sessions that have run a command.
func (l *lab) startMany(ctx context.Context, n int) ([]string, error) {
	ids := make([]string, n)
	err := together(n, func(i int) (err error) {
		if ids[i], err = l.start(ctx); err != nil {
			return err
		}
		return l.runTrue(ctx, ids[i])
	})
	return ids, err
}

func (l *lab) endMany(ctx context.Context, ids []string) error {
	return together(len(ids), func(i int) error { return l.end(ctx, ids[i]) })
}

// together does n things at once and waits for all.
func together(n int, do func(i int) error) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// close removes what the bench made, and tells when the server had left
// something of ended sessions.
func (l *lab) close(ctx context.Context, progress func(string, ...any)) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	var errs []error
	if l.session != "" {
		errs = append(errs, l.end(ctx, l.session))
	}
	if l.mcp != nil {
		_ = l.mcp.Close()
	}
	labels := []string{l.label}
	if l.server != nil {
		ours := session.LabelInstallation + "=" + l.server.Installation
		labels = append(labels, ours)
		if left, err := localserver.Labelled(ctx, l.api, ours); err == nil {
			left = remains(left)
			if len(left) > 0 {
				progress("the server left behind, though all sessions had ended: %s", strings.Join(left, ", "))
			}
		}
		errs = append(errs, l.server.Close(ctx))
	}
	if l.api != nil {
		errs = append(errs, localserver.Remove(ctx, l.api, l.label))
		for _, label := range labels {
			left, err := localserver.Labelled(ctx, l.api, label)
			if len(left) > 0 {
				err = errors.Join(err, fmt.Errorf("left at the engine: %s", strings.Join(left, ", ")))
			}
			errs = append(errs, err)
		}
		_ = l.api.Close()
	}
	return errors.Join(errs...)
}

// remains leaves out the one image that a server keeps for further sessions.
func remains(left []string) []string {
	images, rest := 0, []string{}
	for _, what := range left {
		if strings.HasPrefix(what, "image ") {
			if images++; images == 1 {
				continue
			}
		}
		rest = append(rest, what)
	}
	return rest
}
