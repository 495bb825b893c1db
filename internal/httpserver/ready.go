package httpserver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
)

// readyTimeout bounds an answer of /readyz.
const readyTimeout = 2 * time.Second

// PartError says that a part of the server is not ready. Part is shown to
// everybody, Err goes to the log.
type PartError struct {
	Part string
	Err  error
}

func (e *PartError) Error() string { return e.Part + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *PartError) Unwrap() error { return e.Err }

// healthz says that the process serves, and no more.
func healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, "ok")
}

// readiness is /readyz: 200, or 503 with the parts that are not ready. Callers
// need no token, so they share one check at a time and see no details.
type readiness struct {
	base   context.Context //nolint:containedctx // checks are shared, so they belong to no request
	check  func(context.Context) error
	logger *slog.Logger
	flight singleflight.Group
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.base.Err() != nil {
		answer(w, http.StatusServiceUnavailable, "not ready: shutting down")
		return
	}
	done := r.flight.DoChan("", func() (any, error) { //nolint:contextcheck // shared by several requests
		ctx, cancel := context.WithTimeout(r.base, readyTimeout)
		defer cancel()
		return nil, r.check(ctx)
	})
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	select {
	case result := <-done:
		r.answer(w, result.Err)
	case <-timeout.C: // a check that does not heed its context
		answer(w, http.StatusServiceUnavailable, fmt.Sprintf("not ready: no answer within %s", readyTimeout))
	case <-req.Context().Done():
	}
}

func (r *readiness) answer(w http.ResponseWriter, err error) {
	if err == nil {
		answer(w, http.StatusOK, "ok")
		return
	}
	r.logger.Debug("not ready", "error", err)
	text := "not ready"
	if parts := partsOf(err); len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	answer(w, http.StatusServiceUnavailable, text)
}

// partsOf lists the parts in err, which may be joined or wrapped.
func partsOf(err error) []string {
	var parts []string
	switch e := err.(type) { //nolint:errorlint // this walks the tree itself
	case *PartError:
		return []string{e.Part}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			parts = append(parts, partsOf(inner)...)
		}
	case interface{ Unwrap() error }:
		return partsOf(e.Unwrap())
	}
	slices.Sort(parts)
	return slices.Compact(parts)
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a client that is gone
}
