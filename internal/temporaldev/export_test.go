package temporaldev

import (
	"log/slog"
	"net/http"

	"go.temporal.io/server/common/log/tag"
)

// Pages is the UI without the check in front of it, as if the UI server had a port.
func (u *UI) Pages() http.Handler { return u.pages }

// Fatal gives the error that is kept of a message which the server calls fatal.
func Fatal(logger *slog.Logger, msg string, tags ...tag.Tag) error {
	l := newServerLog(logger)
	go l.Fatal(msg, tags...) // ends its goroutine
	return <-l.state.fatal
}
