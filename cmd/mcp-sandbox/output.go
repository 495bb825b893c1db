package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// output is where a command's result goes: as a table for people, or as one JSON
// document for programs. Nothing else may go to stdout.
type output struct{ json bool }

func (o *output) flag(c *cobra.Command) {
	c.Flags().BoolVar(&o.json, "json", false, "print one JSON document")
}

// write prints document with --json, else the rows below their headings.
func (o *output) write(w io.Writer, document any, head []string, rows [][]string) error {
	if o.json {
		return writeJSON(w, document)
	}
	return writeTable(w, append([][]string{head}, rows...))
}

func writeJSON(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// writeTable aligns the columns, whether or not a terminal reads them. Columns
// are two blanks apart, and an empty cell is "-", so that a line always has as
// many fields as there are columns where no cell has blanks in it.
func writeTable(w io.Writer, rows [][]string) error {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = cell(c)
		}
		if _, err := fmt.Fprintln(t, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// maxCell is how many characters of a cell are shown; --json shows all.
const maxCell = 120

// cell makes a text fit for a line of a terminal: agents choose names and
// commands, and must not be able to move the cursor of whoever looks.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		s = strconv.Quote(s)
	}
	if runes := []rune(s); len(runes) > maxCell {
		s = string(runes[:maxCell-3]) + "..."
	}
	return s
}

// sizeText writes a number of bytes for people.
func sizeText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n), 0
	for size >= 1<<10 && unit < len(sizeUnits) {
		size /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.1f %s", size, sizeUnits[unit-1])
}

var sizeUnits = []string{"KiB", "MiB", "GiB", "TiB"}

// shellWord quotes s where a shell would take it apart.
func shellWord(s string) string {
	plain := !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+=:@%", r)
	})
	if plain && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// outcome is what came of ending or deleting one thing of several.
type outcome struct {
	id  string
	err error
}

// changesAtOnce is how many sessions are ended, or snapshots deleted, at a time.
const changesAtOnce = 8

// forEach calls do for each ID once and gives what came of it, in their order.
func forEach(ids []string, do func(id string) error) []outcome {
	var list []outcome
	seen := map[string]bool{}
	for _, id := range ids {
		if !seen[id] {
			list = append(list, outcome{id: id})
		}
		seen[id] = true
	}
	var g errgroup.Group
	g.SetLimit(changesAtOnce)
	for i := range list {
		g.Go(func() error {
			list[i].err = operatorError(do(list[i].id))
			return nil
		})
	}
	_ = g.Wait()
	return list
}

// failures joins the errors of those that failed, one to a line.
func failures(outcomes []outcome) error {
	var errs []error
	for _, o := range outcomes {
		if o.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.id, o.err))
		}
	}
	return errors.Join(errs...)
}
