package tools

import (
	"fmt"
	"strings"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func snapshotTools() []Spec {
	return []Spec{
		define(session.TakeSnapshot, Spec{
			Title:       "Take snapshot",
			Description: "Keep the sandbox's files as they are now, to restore them or to start other sessions from. Running processes are not kept.",
			Toolset:     ToolsetSnapshots,
		}, snapshotText),
		define(session.ListSnapshots, Spec{
			Title:       "List snapshots",
			Description: "List your snapshots, newest first.",
			Toolset:     ToolsetSnapshots,
			Global:      true,
			Hints:       Hints{ReadOnly: true, Idempotent: true},
		}, listSnapshotsText),
		define(session.DeleteSnapshot, Spec{
			Title:       "Delete snapshot",
			Description: "Delete a snapshot for good.",
			Toolset:     ToolsetSnapshots,
			Global:      true,
			Hints:       Hints{Destructive: true, Idempotent: true},
		}, deleteSnapshotText),
		define(session.RestoreSnapshot, Spec{
			Title:       "Restore snapshot",
			Description: "Set a session's files back to a snapshot.",
			Toolset:     ToolsetSnapshots,
			Hints:       Hints{Destructive: true},
		}, restoreSnapshotText),
	}
}

func snapshotText(out session.SnapshotOut) string {
	text := fmt.Sprintf("Snapshot %s, %s; restore_snapshot goes back to it, start_session with it makes a copy.", out.SnapshotID, size(out.SizeBytes))
	if len(out.Excluded) > 0 {
		text += " Not in it: " + strings.Join(out.Excluded, ", ") + "."
	}
	return text
}

func listSnapshotsText(out session.ListSnapshotsOut) string {
	if len(out.Snapshots) == 0 {
		return "No snapshots."
	}
	lines := make([]string, len(out.Snapshots))
	for i, s := range out.Snapshots {
		lines[i] = fmt.Sprintf("%s%s  %s  %s  of %s", s.SnapshotID, label(s.Name), size(s.SizeBytes), s.CreatedAt, s.SessionID)
	}
	return strings.Join(lines, "\n")
}

func deleteSnapshotText(out session.DeleteSnapshotOut) string {
	return fmt.Sprintf("Snapshot %s is deleted.", out.SnapshotID)
}

func restoreSnapshotText(out session.RestoreSnapshotOut) string {
	return fmt.Sprintf("Session %s: %s, with the files of snapshot %s.", out.SessionID, out.Status, out.SnapshotID)
}

// label shows a name that may be empty.
func label(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" %q", name)
}

func size(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
