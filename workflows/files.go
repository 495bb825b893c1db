package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func (r *run) readFile(ctx workflow.Context, c call, in session.ReadFileIn) (session.ReadFileOut, error) {
	return toGuest[session.ReadFileIn, session.ReadFileOut](ctx, r, c, request{
		activity: activities.ReadFile, summary: summary(session.ReadFile.Name, in.Path),
	}, in)
}

func (r *run) writeFile(ctx workflow.Context, c call, in session.WriteFileIn) (session.WriteFileOut, error) {
	return toGuest[session.WriteFileIn, session.WriteFileOut](ctx, r, c, request{
		activity: activities.WriteFile, summary: summary(session.WriteFile.Name, in.Path),
	}, in)
}

func (r *run) editFile(ctx workflow.Context, c call, in session.EditFileIn) (session.EditFileOut, error) {
	return toGuest[session.EditFileIn, session.EditFileOut](ctx, r, c, request{
		activity: activities.EditFile, summary: summary(session.EditFile.Name, in.Path),
	}, in)
}
