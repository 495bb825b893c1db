package tools

import (
	"context"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// progressEvery is how often a waiting call reports. Clients that count silence
// give up after 60 s at the earliest; mcp-go's notification channel holds 100
// and drops the rest, so this must stay slow.
const progressEvery = 5 * time.Second

// progressLook bounds the look at what a command prints.
const progressLook = 2 * time.Second

// progress is a call's progress notifications. Without a token it sends none.
type progress struct {
	handler *handler
	token   any
	stop    func() // returns when no more will be sent

	mu   sync.Mutex
	call session.Call // whose command is followed
}

// reportProgress sends a progress notification every interval until stop is
// called, if the client gave a token. The value is the seconds waited, so it
// increases. Nothing that matters may be in it: mcp-go loses notifications that
// are sent right before the result.
func (h *handler) reportProgress(ctx context.Context, req mcp.CallToolRequest) *progress {
	srv := server.ServerFromContext(ctx)
	if srv == nil || req.Params.Meta == nil || req.Params.Meta.ProgressToken == nil {
		return &progress{stop: func() {}}
	}
	p := &progress{handler: h, token: req.Params.Meta.ProgressToken}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { p.report(ctx, srv) })
	p.stop = func() {
		cancel()
		wg.Wait()
	}
	return p
}

// follow has the notifications tell what the call's command prints. It tells
// whether they will.
func (p *progress) follow(call session.Call) bool {
	if p.token == nil || p.handler.opts.Progress == nil || p.handler.spec.Name != session.RunCommand.Name {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.call = call
	return true
}

func (p *progress) report(ctx context.Context, srv *server.MCPServer) {
	every := p.handler.opts.ProgressEvery
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			waited := time.Duration(n) * every
			// An error is a client that does not read; the next one may be read.
			_ = srv.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": p.token,
				"progress":      waited.Seconds(),
				"message":       p.message(ctx, waited),
			})
		}
	}
}

func (p *progress) message(ctx context.Context, waited time.Duration) string {
	p.mu.Lock()
	call := p.call
	p.mu.Unlock()
	text := p.handler.spec.Name + ": waiting for " + waited.String()
	if call.SessionID == "" {
		return text
	}
	ctx, cancel := context.WithTimeout(ctx, progressLook)
	defer cancel()
	if line := p.handler.opts.Progress(ctx, call); line != "" {
		text += "; last output: " + line
	}
	return text
}
