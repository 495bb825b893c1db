package main

import (
	"fmt"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// copyResult is the document of cp.
type copyResult struct {
	SessionID string `json:"session_id"`
	CallID    string `json:"call_id"`
	Direction string `json:"direction"` // in, or out of the sandbox
	// Path is where the copy is, absolute.
	Path string `json:"path"`
	session.CopyCounts
	// Unchanged counts the files that were there already, and were left alone.
	Unchanged int `json:"unchanged"`
	// Notes are of the first maxNotes things that the copy does not have as they
	// were.
	Notes []copyNote `json:"notes"`
}

// copyNote is one of them.
type copyNote struct {
	Path string `json:"path"`
	// Kind is skipped, unread (could not be read) or altered (is there, but for
	// what the reason says).
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// maxNotes bounds what is remembered; the counts are of all.
const maxNotes = 1000

func (r *copyResult) note(e filetree.Entry) {
	if len(r.Notes) < maxNotes {
		r.Notes = append(r.Notes, copyNote{e.Path.String(), string(e.Type), e.Reason})
	}
}

// report prints what was copied to stdout, and what was not to stderr.
func (r *copyResult) report(p process, out output, took time.Duration) error {
	for _, n := range r.Notes {
		if _, err := fmt.Fprintf(p.stderr, "%s: %s: %s\n", n.Kind, cell(n.Path), cell(n.Reason)); err != nil {
			return err
		}
	}
	if more := r.Skipped + r.Unread + r.Altered - len(r.Notes); more > 0 {
		if _, err := fmt.Fprintf(p.stderr, "and %d more\n", more); err != nil {
			return err
		}
	}
	if out.json {
		return writeJSON(p.stdout, r)
	}
	_, err := fmt.Fprintln(p.stdout, r.text(took))
	return err
}

// text is the result in one line.
func (r *copyResult) text(took time.Duration) string {
	where := cell(r.Path)
	if r.Direction == "in" {
		where = r.SessionID + ":" + where
	}
	s := fmt.Sprintf("Copied %s (%s) to %s in %.1f s", plural(r.Files, "file"), sizeText(r.Bytes), where, took.Seconds())
	if r.Unchanged > 0 {
		s += fmt.Sprintf(", %d of them there already", r.Unchanged)
	}
	if n := r.Skipped; n > 0 {
		s += fmt.Sprintf(", %d skipped", n)
	}
	if r.Unread > 0 {
		s += fmt.Sprintf(", %d not read", r.Unread)
	}
	return s
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
