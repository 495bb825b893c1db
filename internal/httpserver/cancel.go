package httpserver

import (
	"context"
	"errors"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

// A call has three contexts, each the child of the one before:
//
//   - the request's, which ends when the client is gone or the server shuts down;
//   - mcp-go's, which keeps no answer once it has ended. It ends when the client
//     is gone (tools.HTTPContext says what that means on which revision), and for
//     calls not with a shutdown, so that they can still answer;
//   - the tool's, which ends with mcp-go's, with notifications/cancelled and with
//     a shutdown.

type ownerKey struct{}

func withOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

func ownerOf(ctx context.Context) string {
	owner, _ := ctx.Value(ownerKey{}).(string)
	return owner
}

// toolContext is a server.HTTPContextFunc.
func toolContext(ctx context.Context, r *http.Request) context.Context {
	return tools.WithOwner(tools.HTTPContext(ctx, r), ownerOf(ctx))
}

// outliveShutdown gives a context that ends as ctx does, except by a shutdown.
// The caller calls stop when the request has been served.
func outliveShutdown(ctx context.Context) (out context.Context, stop func()) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !errors.Is(cause, tools.ErrShuttingDown) {
			cancel(cause)
		}
	})
	return out, func() {
		detach()
		cancel(context.Canceled)
	}
}

// tellShutdown is a server.ToolHandlerMiddleware that ends a tool's context with
// a shutdown.
func (s *Server) tellShutdown(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		detach := context.AfterFunc(s.base, func() { cancel(tools.ErrShuttingDown) }) //nolint:contextcheck // it watches the server's life
		defer detach()
		return next(ctx, req)
	}
}
