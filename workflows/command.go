package workflows

import (
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func (r *run) runCommand(ctx workflow.Context, c call, in session.RunCommandIn) (session.RunCommandOut, error) {
	out, err := toGuest[session.RunCommandIn, session.RunCommandOut](ctx, r, c, request{
		activity: activities.RunCommand, summary: summary(session.RunCommand.Name, in.Command), wait: seconds(in.Wait()),
		env: r.in.Start.Env,
	}, in)
	if err == nil {
		out.Note = r.notice(out.Note)
	}
	return out, err
}

func (r *run) readOutput(ctx workflow.Context, c call, in session.ReadOutputIn) (session.ReadOutputOut, error) {
	return toGuest[session.ReadOutputIn, session.ReadOutputOut](ctx, r, c, request{
		activity: activities.ReadOutput, summary: summary(session.ReadOutput.Name, in.CommandID), wait: seconds(in.WaitSeconds),
	}, in)
}

func (r *run) sendInput(ctx workflow.Context, c call, in session.SendInputIn) (session.SendInputOut, error) {
	return toGuest[session.SendInputIn, session.SendInputOut](ctx, r, c, request{
		activity: activities.SendInput, summary: summary(session.SendInput.Name, in.CommandID),
	}, in)
}

func (r *run) stopCommand(ctx workflow.Context, c call, in session.StopCommandIn) (session.StopCommandOut, error) {
	return toGuest[session.StopCommandIn, session.StopCommandOut](ctx, r, c, request{
		activity: activities.StopCommand, summary: summary(session.StopCommand.Name, in.CommandID), wait: 10 * time.Second, far: true,
	}, in)
}

// notice adds what a recovery has to tell to a result's note, once.
func (r *run) notice(note string) string {
	n := strings.TrimSpace(r.st.Notice + " " + note)
	r.st.Notice = ""
	return n
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// summary is what Temporal's UI shows of an activity: one line, at most 120
// bytes, of an operation and what it is about.
func summary(operation, about string) string {
	const most = 120
	line, _, more := strings.Cut(strings.TrimSpace(about), "\n")
	s := operation + ": " + strings.ToValidUTF8(line, "?")
	if len(s) > most {
		s, more = strings.ToValidUTF8(s[:most], ""), true
	}
	if more {
		s += " ..."
	}
	return s
}
