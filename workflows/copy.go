package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// copyWait is how long a copy may take: 16 GiB at 5 MB a second. A worker that
// dies meanwhile is noticed by its heartbeats.
const copyWait = time.Hour

func (r *run) copyIn(ctx workflow.Context, c call, in session.CopyInIn) (session.CopyInOut, error) {
	return toGuest[session.CopyInIn, session.CopyInOut](ctx, r, c, request{
		activity: activities.CopyIn, wait: copyWait, far: true, long: true,
		summary: summary(session.CopyIn.Name, fmt.Sprintf("%d files, %s -> %s", in.Files, bytesText(in.Bytes), placeText(in.Path))),
	}, in)
}

func (r *run) copyOut(ctx workflow.Context, c call, in session.CopyOutIn) (session.CopyOutOut, error) {
	return toGuest[session.CopyOutIn, session.CopyOutOut](ctx, r, c, request{
		activity: activities.CopyOut, wait: copyWait, far: true, long: true,
		summary: summary(session.CopyOut.Name, placeText(in.Path)),
	}, in)
}

func placeText(path string) string {
	if path == "" {
		return "working directory"
	}
	return path
}

// bytesText words a size for a summary.
func bytesText(n int64) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%d MB", n/1_000_000)
	case n >= 10_000:
		return fmt.Sprintf("%d kB", n/1000)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
