package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// lineWidth is what a terminal shows without folding.
	lineWidth = 110
	// resultLines of a result are shown: all that the script's results have, as
	// long as nothing goes wrong.
	resultLines = 24
	indent      = "     "
)

// transcript prints what the agent does, for a human.
type transcript struct {
	out   io.Writer
	steps int
}

func (t *transcript) note(format string, a ...any) { _, _ = fmt.Fprintf(t.out, format+"\n", a...) }

func (t *transcript) step(why, tool string, in args) {
	t.steps++
	t.note("\n%3d  %s\n%s%s", t.steps, why, indent, oneLine(tool, in))
}

func (t *transcript) result(text string, took time.Duration) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines[:min(len(lines), resultLines)] {
		t.note("%s| %s", indent, line)
	}
	if more := len(lines) - resultLines; more > 0 {
		t.note("%s| ... %d more lines", indent, more)
	}
	t.note("%s%s", indent, millis(took))
}

// summary says where the work can be looked at.
func (t *transcript) summary(a *agent, s target) {
	t.note("\nCalls\n%s%-18s %9s  %-36s  %s", indent, "tool", "took", "call ID", "trace ID")
	for _, c := range a.calls {
		t.note("%s%-18s %9s  %-36s  %s", indent, c.tool, millis(c.took), c.callID, c.traceID)
	}
	t.note("\nWorkflow ID  %s\nRun ID       %s", a.workflow.workflowID, a.workflow.runID)
	if s.ui == "" {
		t.note("Temporal UI  %s", s.howToLook)
		return
	}
	t.note("Temporal UI  %s\n             (%s)", workflowLink(s.ui, a.workflow), s.howToLook)
}

// workflowLink is the UI's page about a workflow. ui may carry a token, which
// the link keeps.
func workflowLink(ui string, c call) string {
	u, err := url.Parse(ui)
	if err != nil {
		return ui
	}
	link := u.JoinPath("namespaces", "default", "workflows", url.PathEscape(c.workflowID), c.runID, "history")
	return link.String()
}

// oneLine is a call as its tool and its arguments, cut to a line's width.
func oneLine(tool string, in args) string {
	keys := make([]string, 0, len(in))
	for k := range in {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if i := slices.Index(keys, "path"); i > 0 { // before what is done with it
		keys = slices.Insert(slices.Delete(keys, i, i+1), 0, "path")
	}
	words := []string{tool}
	for _, k := range keys {
		var value strings.Builder
		e := json.NewEncoder(&value)
		e.SetEscapeHTML(false)
		_ = e.Encode(in[k])
		words = append(words, k+"="+strings.TrimSpace(value.String()))
	}
	return cut(strings.Join(words, " "), lineWidth-len(indent))
}

func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-3]) + "..."
}

func millis(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d.Microseconds())/1000) }
