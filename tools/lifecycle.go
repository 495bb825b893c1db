package tools

import (
	"fmt"
	"strings"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func lifecycleTools() []Spec {
	return []Spec{
		define(session.StartSession, Spec{
			Title:       "Start session",
			Description: "Start a sandbox and give its session_id for the other tools.",
			Toolset:     ToolsetCore,
			Global:      true,
		}, startSessionText),
		define(session.ListSessions, Spec{
			Title:       "List sessions",
			Description: "List your sessions, newest first.",
			Toolset:     ToolsetCore,
			Global:      true,
			Hints:       Hints{ReadOnly: true, Idempotent: true},
		}, listSessionsText),
		define(session.GetSession, Spec{
			Title:       "Get session",
			Description: "Show a session's status, running commands and resource usage.",
			Toolset:     ToolsetObserve,
			Hints:       Hints{ReadOnly: true, Idempotent: true},
		}, getSessionText),
		define(session.EndSession, Spec{
			Title:       "End session",
			Description: "End a session: its processes and files are gone, its snapshots stay.",
			Toolset:     ToolsetCore,
			Hints:       Hints{Destructive: true, Idempotent: true},
		}, endSessionText),
	}
}

func startSessionText(out session.StartSessionOut) string {
	next := "Give session_id to run_command and the other tools, and to end_session when done."
	if out.Status == session.StatusStarting {
		next = "The image is not ready yet; calls wait for it. " + next
	}
	return fmt.Sprintf("session_id %s: %s; image %s, working directory %s, network %s, %d MiB of memory, %g CPUs, until %s. %s",
		out.SessionID, out.Status, out.Image, out.WorkingDir, out.Network, out.MemoryMB, out.CPUs, out.ExpiresAt, next)
}

func listSessionsText(out session.ListSessionsOut) string {
	if len(out.Sessions) == 0 {
		return "No sessions; start_session makes one."
	}
	lines := make([]string, len(out.Sessions))
	for i, s := range out.Sessions {
		lines[i] = fmt.Sprintf("%s%s  %s  %s  since %s", s.SessionID, label(s.Name), s.Status, s.Image, s.StartedAt)
		if s.EndedAt != "" {
			lines[i] += " to " + s.EndedAt
		}
	}
	return strings.Join(lines, "\n")
}

func getSessionText(out session.GetSessionOut) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Session %s%s: %s", out.SessionID, label(out.Name), out.Status)
	if out.Reason != "" {
		fmt.Fprintf(&b, " (%s)", out.Reason)
	}
	fmt.Fprintf(&b, "; image %s, network %s, until %s\n", out.Image, out.Network, out.ExpiresAt)
	if u := out.Usage; u != nil {
		fmt.Fprintf(&b, "Uses %s of %s of memory, %.1f s of CPU, %d of %d processes\n",
			size(u.MemoryBytes), size(u.MemoryLimitBytes), u.CPUSeconds, u.PIDs, u.PIDsLimit)
	}
	if len(out.Commands) == 0 {
		b.WriteString("No running commands")
		return b.String()
	}
	b.WriteString("Running commands:")
	for _, c := range out.Commands {
		fmt.Fprintf(&b, "\n%s  since %s  %s", c.CommandID, c.StartedAt, firstLine(c.Command))
	}
	return b.String()
}

func endSessionText(out session.EndSessionOut) string {
	return fmt.Sprintf("Session %s: %s.", out.SessionID, out.Status)
}

// firstLine shows a command in a list.
func firstLine(command string) string {
	first, _, more := strings.Cut(command, "\n")
	if more {
		first += " ..."
	}
	return clip(first)
}
