package tools

import (
	"fmt"
	"strings"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func fileTools() []Spec {
	return []Spec{
		define(session.ReadFile, Spec{
			Title:       "Read file",
			Description: "Read a file, or some of its lines.",
			Toolset:     ToolsetFiles,
			Hints:       Hints{ReadOnly: true, Idempotent: true},
			Large:       true,
		}, readFileText),
		define(session.WriteFile, Spec{
			Title:       "Write file",
			Description: "Create a file, replace its content, or append to it.",
			Toolset:     ToolsetFiles,
			Hints:       Hints{Destructive: true},
		}, writeFileText),
		define(session.EditFile, Spec{
			Title:       "Edit file",
			Description: "Replace literal text in a file.",
			Toolset:     ToolsetFiles,
			Hints:       Hints{Destructive: true},
		}, editFileText),
	}
}

func readFileText(out session.ReadFileOut) string {
	var b strings.Builder
	writeBlock(&b, out.Content)
	notes := []string{out.Path, fmt.Sprintf("%d bytes", out.Size)}
	switch {
	case out.Size == 0:
		notes = append(notes, "empty")
	case out.TotalLines < 0:
		notes = append(notes, fmt.Sprintf("lines %d to %d of many", out.StartLine, out.EndLine))
	default:
		notes = append(notes, fmt.Sprintf("lines %d to %d of %d", out.StartLine, out.EndLine, out.TotalLines))
	}
	switch {
	case !out.Truncated:
	case out.TotalLines < 0 || out.EndLine < out.TotalLines:
		notes = append(notes, fmt.Sprintf("cut; read on with offset %d", out.EndLine+1))
	default:
		notes = append(notes, "cut: earlier lines or parts of long lines are left out; use offset, or cut in run_command")
	}
	switch out.Encoding {
	case session.Base64:
		notes = append(notes, "shown as base64")
	case session.UTF8Lossy:
		notes = append(notes, "bytes that are not UTF-8 are shown as U+FFFD; encoding base64 has them")
	}
	return b.String() + line(notes)
}

func writeFileText(out session.WriteFileOut) string {
	did := "Wrote"
	if out.Created {
		did = "Created"
	}
	return fmt.Sprintf("%s %s, now %d bytes, sha256 %s.", did, out.Path, out.Size, out.SHA256)
}

func editFileText(out session.EditFileOut) string {
	var b strings.Builder
	writeBlock(&b, out.Diff)
	times := "1 replacement"
	if out.Replacements != 1 {
		times = fmt.Sprintf("%d replacements", out.Replacements)
	}
	return b.String() + line([]string{out.Path, times, "sha256 " + out.SHA256})
}
