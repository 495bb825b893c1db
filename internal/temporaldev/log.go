package temporaldev

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// serverLog passes the Temporal server's warnings and errors to slog. What the
// server says below that is of use to its own developers only and is dropped.
type serverLog struct {
	logger *slog.Logger
	state  *logState
}

// logState is shared by all loggers derived from one serverLog.
type logState struct {
	// stopping silences the services: each complains that the others are gone.
	stopping atomic.Bool
	// fatal holds the first error the server called fatal.
	fatal chan error
}

var (
	_ log.Logger     = (*serverLog)(nil)
	_ log.WithLogger = (*serverLog)(nil)
)

func newServerLog(logger *slog.Logger) *serverLog {
	return &serverLog{
		logger: logger.With(slog.String("component", "temporal")),
		state:  &logState{fatal: make(chan error, 1)},
	}
}

// With implements log.WithLogger.
func (l *serverLog) With(tags ...tag.Tag) log.Logger {
	return &serverLog{logger: slog.New(l.logger.Handler().WithAttrs(attrs(tags))), state: l.state}
}

// Debug implements log.Logger and drops the message.
func (l *serverLog) Debug(string, ...tag.Tag) {}

// Info implements log.Logger and drops the message.
func (l *serverLog) Info(string, ...tag.Tag) {}

// Warn implements log.Logger. One warning is about what we left out on purpose: the
// HTTP API would be one more port.
func (l *serverLog) Warn(msg string, tags ...tag.Tag) {
	if strings.HasPrefix(msg, "HTTP API port has not been set") {
		return
	}
	l.log(slog.LevelWarn, msg, tags)
}

// Error implements log.Logger.
func (l *serverLog) Error(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// DPanic implements log.Logger. The server goes on after it in production.
func (l *serverLog) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// Panic implements log.Logger. The server counts on it not to return.
func (l *serverLog) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic("temporal: " + msg)
}

// Fatal implements log.Logger. The server expects the process to exit here, which
// is not ours to do: the error is kept for Start or Server.Failed, and the calling
// goroutine ends, so that nothing runs past a point the server thinks is the end.
func (l *serverLog) Fatal(msg string, tags ...tag.Tag) {
	err := fmt.Errorf("temporal server: %s", msg)
	for _, t := range tags {
		if cause := errorIn(t); cause != nil {
			err = fmt.Errorf("temporal server: %s: %w", msg, cause)
		}
	}
	l.log(slog.LevelError, msg, tags)
	select {
	case l.state.fatal <- err:
	default:
	}
	runtime.Goexit()
}

// errorIn gives the error that a tag holds, if any. Its Value is text alone.
func errorIn(t tag.Tag) error {
	value := t.Value()
	if z, ok := t.(tag.ZapTag); ok {
		value = z.Field().Interface
	}
	cause, _ := value.(error)
	return cause
}

func (l *serverLog) log(level slog.Level, msg string, tags []tag.Tag) {
	if l.state.stopping.Load() {
		level = slog.LevelDebug
	}
	l.logger.LogAttrs(context.Background(), level, msg, attrs(tags)...)
}

func attrs(tags []tag.Tag) []slog.Attr {
	out := make([]slog.Attr, 0, len(tags))
	for _, t := range tags {
		out = append(out, slog.Any(t.Key(), t.Value()))
	}
	return out
}
