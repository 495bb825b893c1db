package tools

import (
	"context"
	"errors"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Causes (context.Cause) that a transport cancels a request's context with. Of
// these only ErrClientCancelled stops the command of a run_command; with the
// others it goes on and can be read later.
var (
	// ErrClientCancelled: the client explicitly cancelled the call. On MCP
	// 2026-07-28 over HTTP, closing the response stream is that.
	ErrClientCancelled = errors.New("cancelled by the client")
	// ErrDisconnected: the connection is gone, which says nothing of the client's
	// wishes: an HTTP request of an older revision, or the end of stdin.
	ErrDisconnected = errors.New("the client's connection is gone")
	// ErrShuttingDown: this server ends. Cancel http.Server's BaseContext with it
	// before Shutdown or Close: those alone look like clients that left.
	ErrShuttingDown = errors.New("the server is shutting down")
)

// transportKey marks a context whose end without a cause can only be mcp-go's
// doing, on notifications/cancelled.
type transportKey struct{}

// HTTPContext is a server.HTTPContextFunc that gives the end of an HTTP request
// a cause: ErrClientCancelled on 2026-07-28, ErrDisconnected before it. A cause
// that is set already stays. Without it in the chain no cancellation interrupts.
//
// mcp-go derives a handler's context from the one returned here and cancels
// only the handler's, with no cause, when a notifications/cancelled names the
// request. net/http cancels the request's, with no cause either, when the
// client closes the connection and when the request has been served.
func HTTPContext(ctx context.Context, r *http.Request) context.Context {
	ended := ErrDisconnected
	if mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
		ended = ErrClientCancelled
	}
	// The result is no child of ctx, so that the cause arrives before the end.
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, context.Canceled) {
			cause = ended
		}
		cancel(cause)
	})
	return context.WithValue(out, transportKey{}, true)
}

// StdioContext is a server.StdioContextFunc. The context given to Listen must be
// cancelled with ErrDisconnected before Listen sees the end of stdin (wrap the
// reader): Listen itself then cancels its calls with no cause, which is what a
// notifications/cancelled does.
func StdioContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, transportKey{}, true)
}

// CancelledByClient tells whether ctx, a handler's, has ended because the client
// explicitly cancelled the call. When in doubt it says no: a command that goes
// on can be stopped later.
func CancelledByClient(ctx context.Context) bool {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrClientCancelled) {
		return true
	}
	// Disconnected, shutting down, or out of time. Errors that wrap Canceled are
	// somebody's cause as well, hence no errors.Is.
	if cause != context.Canceled || ctx.Value(transportKey{}) == nil { //nolint:errorlint // identity is meant
		return false
	}
	// mcp-go keys running requests by MCP session and request ID. Stateless
	// requests have no session, so their IDs are shared by all clients: a
	// notification there may be anybody's.
	s := server.ClientSessionFromContext(ctx)
	return s != nil && s.SessionID() != ""
}
