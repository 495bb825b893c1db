package tools

import (
	"context"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// progressEvery is how often a waiting call reports. Clients that count silence
// give up after 60 s at the earliest; mcp-go's notification channel holds 100
// and drops the rest, so this must stay slow.
const progressEvery = 5 * time.Second

// reportProgress sends a progress notification every interval until stop is
// called, if the client gave a token. The value is the seconds waited, so it
// increases. Nothing that matters may be in it: mcp-go loses notifications that
// are sent right before the result. stop returns when no more will be sent.
func reportProgress(ctx context.Context, req mcp.CallToolRequest, every time.Duration) (stop func()) {
	srv := server.ServerFromContext(ctx)
	if srv == nil || req.Params.Meta == nil || req.Params.Meta.ProgressToken == nil {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
				waited := time.Duration(n) * every
				// An error is a client that does not read; the next one may be read.
				_ = srv.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
					"progressToken": req.Params.Meta.ProgressToken,
					"progress":      waited.Seconds(),
					"message":       req.Params.Name + ": waiting for " + waited.String(),
				})
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
