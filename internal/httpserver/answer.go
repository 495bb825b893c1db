package httpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/mark3labs/mcp-go/mcp"
)

// refusal is a JSON-RPC error. Where the request's ID is not known it has none,
// as MCP wants it from transports.
type refusal struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Error   refusalError    `json:"error"`
}

type refusalError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// refuse answers with a status and the reason, for programs and people alike.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, format string, args ...any) {
	code := mcp.INVALID_REQUEST
	if status >= http.StatusInternalServerError {
		code = mcp.INTERNAL_ERROR
	}
	body, err := json.Marshal(refusal{JSONRPC: mcp.JSONRPC_VERSION, ID: id, Error: refusalError{Code: code, Message: fmt.Sprintf(format, args...)}})
	if err != nil {
		body = []byte(`{"jsonrpc":"2.0","error":{"code":-32603,"message":"internal error"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that is gone
}

// recoverPanics answers 500 for a fault of ours, and logs it with its stack.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &response{ResponseWriter: w}
		defer func() {
			fault := recover()
			if fault == nil {
				return
			}
			if err, ok := fault.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(fault) // net/http's way to cut a connection
			}
			s.opts.Logger.Error("panic in a request", "panic", fault, "path", r.URL.Path, "stack", string(debug.Stack()))
			if out.wrote {
				panic(http.ErrAbortHandler) // half an answer must not look whole
			}
			refuse(w, http.StatusInternalServerError, nil, "internal error")
		}()
		next.ServeHTTP(out, r)
	})
}

// response knows whether an answer was begun.
type response struct {
	http.ResponseWriter
	wrote bool
}

func (w *response) WriteHeader(status int) {
	w.wrote = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	w.wrote = true
	return w.ResponseWriter.Write(p)
}

// Flush makes mcp-go stream: it asks for an http.Flusher.
func (w *response) Flush() {
	w.wrote = true
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a client that is gone
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
