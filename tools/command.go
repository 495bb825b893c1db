package tools

import (
	"fmt"
	"strings"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func commandTools() []Spec {
	return []Spec{
		define(session.RunCommand, Spec{
			Title:       "Run command",
			Description: "Run a shell command and give its output and exit code. If it still runs after wait_seconds it goes on, and the answer is its command_id for read_output.",
			Toolset:     ToolsetCore,
			Hints:       Hints{Destructive: true, OpenWorld: true},
			Large:       true,
		}, runCommandText),
		define(session.ReadOutput, Spec{
			Title:       "Read output",
			Description: "Read a command's output from a byte offset, while it runs or after.",
			Toolset:     ToolsetCore,
			Hints:       Hints{ReadOnly: true, Idempotent: true},
			Large:       true,
		}, readOutputText),
		define(session.SendInput, Spec{
			Title:       "Send input",
			Description: "Write to the stdin of a command started with wait_seconds 0.",
			Toolset:     ToolsetCore,
			Hints:       Hints{Destructive: true, OpenWorld: true},
		}, sendInputText),
		define(session.StopCommand, Spec{
			Title:       "Stop command",
			Description: "End a running command with all its children, or send it a signal.",
			Toolset:     ToolsetCore,
			Hints:       Hints{Destructive: true},
		}, stopCommandText),
	}
}

// runCommandText is the output and one line on what became of the command.
func runCommandText(out session.RunCommandOut) string {
	var b strings.Builder
	writeBlock(&b, out.Stdout)
	if out.Stdout != "" && out.Stderr != "" {
		b.WriteString("--- stderr ---\n")
	}
	writeBlock(&b, out.Stderr)

	notes := []string{runStatus(out)}
	if out.StdoutBytes == 0 && out.StderrBytes == 0 {
		notes = append(notes, "no output")
	} else if out.Stdout == "" && out.Stderr != "" {
		notes = append(notes, "all on stderr")
	}
	if out.OOMKilled && out.Note == "" { // the note names the limit
		notes = append(notes, "killed at the sandbox's memory limit")
	}
	if out.Truncated {
		notes = append(notes, fmt.Sprintf("output cut, %d bytes of stdout and %d of stderr in all: read_output command_id %s offset 0 has them",
			out.StdoutBytes, out.StderrBytes, out.CommandID))
	}
	if out.OutputHeld {
		notes = append(notes, fmt.Sprintf("a background child goes on with the output open: read_output command_id %s offset %d, or stop_command",
			out.CommandID, out.StdoutBytes))
	}
	notes = append(notes, encodingNote(out.Encoding)...)
	if out.Note != "" {
		notes = append(notes, out.Note)
	}
	return b.String() + line(notes)
}

func runStatus(out session.RunCommandOut) string {
	took := seconds(out.DurationMS)
	switch out.Status {
	case session.CommandRunning:
		return fmt.Sprintf("running, command_id %s; %s so far; read on with read_output offset %d (stderr %d), or stop_command",
			out.CommandID, took, out.StdoutBytes, out.StderrBytes)
	case session.CommandTimedOut:
		return fmt.Sprintf("timed out after %s and killed; for more time raise timeout_seconds", took)
	case session.CommandStopped:
		return fmt.Sprintf("stopped%s, %s", bySignal(out.Signal), took)
	case session.CommandLost:
		return "lost: how the command ended cannot be known; check what it did before running it again"
	default:
		return exitText(out.ExitCode, out.Signal) + ", " + took
	}
}

func readOutputText(out session.ReadOutputOut) string {
	var b strings.Builder
	writeBlock(&b, out.Data)
	notes := []string{commandStatus(out.Status, out.ExitCode, "")}
	switch {
	case out.EOF:
		notes = append(notes, fmt.Sprintf("end of output at %d", out.NextOffset))
	case out.NextOffset == out.Offset:
		notes = append(notes, fmt.Sprintf("nothing past offset %d yet; read on with offset %d and wait_seconds", out.Offset, out.NextOffset))
	default:
		notes = append(notes, fmt.Sprintf("bytes %d to %d; read on with offset %d", out.Offset, out.NextOffset, out.NextOffset))
	}
	notes = append(notes, encodingNote(out.Encoding)...)
	if out.Note != "" {
		notes = append(notes, out.Note)
	}
	return b.String() + line(notes)
}

func sendInputText(out session.SendInputOut) string {
	return fmt.Sprintf("Wrote %d bytes to command %s; read_output shows its answer.", out.BytesWritten, out.CommandID)
}

func stopCommandText(out session.StopCommandOut) string {
	return fmt.Sprintf("Command %s: %s.", out.CommandID, commandStatus(out.Status, out.ExitCode, out.Signal))
}

func commandStatus(status string, exitCode *int, signal string) string {
	switch status {
	case session.CommandExited:
		return exitText(exitCode, signal)
	case session.CommandTimedOut:
		return "timed out"
	case session.CommandStopped:
		return "stopped" + bySignal(signal)
	default:
		return status
	}
}

func exitText(exitCode *int, signal string) string {
	switch {
	case exitCode != nil:
		return fmt.Sprintf("exit code %d", *exitCode)
	case signal != "":
		return "killed by signal " + signal
	default:
		return "exited"
	}
}

func bySignal(signal string) string {
	if signal == "" {
		return ""
	}
	return " by signal " + signal
}

func encodingNote(encoding string) []string {
	switch encoding {
	case session.Base64:
		return []string{"shown as base64"}
	case session.UTF8Lossy:
		return []string{"bytes that are not UTF-8 are shown as U+FFFD; read_output encoding base64 has them"}
	default:
		return nil
	}
}

// writeBlock writes text and ends its last line.
func writeBlock(b *strings.Builder, text string) {
	b.WriteString(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
}

// line is the closing line of a text with content.
func line(notes []string) string { return "[" + strings.Join(notes, "; ") + "]" }

func seconds(ms int64) string { return fmt.Sprintf("%.1f s", float64(ms)/1000) }
