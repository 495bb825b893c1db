//go:build linux

package files

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxDiff is the most bytes of a diff, its marker included: 16 KiB.
	maxDiff = 16 << 10
	// contextLines is how many unchanged lines stand around a change.
	contextLines = 3
)

// unified writes edits as a unified diff. It needs no search for the longest
// common part: the edits say where the changes are. What exceeds maxDiff is cut
// and a marker line says so; bytes that are not UTF-8 show as U+FFFD.
func unified(path string, text []byte, edits []edit) string {
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", path, path)
	c := changes{text: text, edits: edits}
	shift := 0 // how many more lines the new file has so far
	for r, ok := c.next(); ok && out.Len() <= maxDiff; {
		h := hunk{text: text, regions: []region{r}}
		for size := 0; size <= maxDiff; { // beyond, the diff is cut anyway
			r, ok = c.next()
			if !ok || !h.reaches(r) {
				break
			}
			h.regions = append(h.regions, r)
			size += r.end - r.start + len(r.new)
		}
		shift += h.write(&out, shift)
	}
	diff := strings.ToValidUTF8(out.String(), "\uFFFD")
	if len(diff) <= maxDiff {
		return diff
	}
	marker := fmt.Sprintf("\n... diff cut at %s; %d replacements in all\n", bytesOf(maxDiff), len(edits))
	kept := cutText([]byte(diff), maxDiff-len(marker))
	return strings.TrimSuffix(string(kept), "\n") + marker
}

// region is a run of whole lines that changed.
type region struct {
	line       int // how many lines of the old file stand before it
	start, end int // in the old file
	old, new   [][]byte
}

// changes gives the regions of edits one after the other.
type changes struct {
	text  []byte
	edits []edit
	pos   int // up to where lines are counted
	line  int
}

func (c *changes) next() (region, bool) {
	for len(c.edits) > 0 {
		r := c.region()
		if len(r.old)+len(r.new) > 0 {
			c.line += bytes.Count(c.text[c.pos:r.start], newline)
			c.pos, r.line = r.start, c.line
			return r, true
		}
	}
	return region{}, false
}

// region takes the edits that touch the same lines, without the lines that
// they leave as they were: an old_str often brings some along to be unique.
func (c *changes) region() region {
	start := bytes.LastIndexByte(c.text[:c.edits[0].start], '\n') + 1
	pos, end := start, start
	var out []byte
	for first := true; ; {
		if len(c.edits) > 0 && (first || c.edits[0].start < end) {
			e := c.edits[0]
			out = append(append(out, c.text[pos:e.start]...), e.text...)
			pos, end = e.end, max(end, c.lineEnd(e.end))
			c.edits, first = c.edits[1:], false
			continue
		}
		out = append(out, c.text[pos:end]...)
		pos = end
		if len(out) == 0 || out[len(out)-1] == '\n' || end == len(c.text) {
			break
		}
		end = c.lineEnd(end + 1) // the next line has become part of this one
	}
	r := region{start: start, end: end, old: splitLines(c.text[start:end]), new: splitLines(out)}
	for len(r.old) > 0 && len(r.new) > 0 && bytes.Equal(r.old[0], r.new[0]) {
		r.start += len(r.old[0])
		r.old, r.new = r.old[1:], r.new[1:]
	}
	for len(r.old) > 0 && len(r.new) > 0 && bytes.Equal(r.old[len(r.old)-1], r.new[len(r.new)-1]) {
		r.end -= len(r.old[len(r.old)-1])
		r.old, r.new = r.old[:len(r.old)-1], r.new[:len(r.new)-1]
	}
	return r
}

// lineEnd is the end of the line that the byte before at is in.
func (c *changes) lineEnd(at int) int {
	if i := bytes.IndexByte(c.text[at-1:], '\n'); i >= 0 {
		return at + i
	}
	return len(c.text)
}

// splitLines gives the lines of b with their endings.
func splitLines(b []byte) [][]byte { return slices.Collect(bytes.Lines(b)) }

// hunk is a group of regions whose contexts meet.
type hunk struct {
	text    []byte
	regions []region
	body    []string
	old     int // lines of the old file in body
	new     int // lines of the new file in body
}

func (h *hunk) reaches(r region) bool {
	last := h.regions[len(h.regions)-1]
	return bytes.Count(h.text[last.end:r.start], newline) <= 2*contextLines
}

// write appends the hunk and gives by how many lines it makes the file longer.
func (h *hunk) write(out *strings.Builder, shift int) int {
	first := h.regions[0]
	lead := before(h.text[:first.start])
	for _, l := range lead {
		h.add(' ', l)
	}
	for i, r := range h.regions {
		for _, l := range r.old {
			h.add('-', l)
		}
		for _, l := range r.new {
			h.add('+', l)
		}
		if i+1 < len(h.regions) {
			for _, l := range splitLines(h.text[r.end:h.regions[i+1].start]) {
				h.add(' ', l)
			}
		}
	}
	for _, l := range after(h.text[h.regions[len(h.regions)-1].end:]) {
		h.add(' ', l)
	}
	from := first.line - len(lead)
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(from, h.old), span(from+shift, h.new))
	for _, l := range h.body {
		out.WriteString(l[:min(len(l), maxDiff+1)])
		if out.Len() > maxDiff {
			break
		}
	}
	return h.new - h.old
}

// add appends a line of the old file (' ', '-'), of the new (' ', '+') or both.
func (h *hunk) add(sign byte, line []byte) {
	if sign != '+' {
		h.old++
	}
	if sign != '-' {
		h.new++
	}
	end := ""
	if !bytes.HasSuffix(line, newline) {
		end = "\n\\ No newline at end of file\n"
	}
	h.body = append(h.body, string(sign)+string(line)+end)
}

// before gives the last lines of b, which is empty or ends with a line end.
func before(b []byte) [][]byte {
	start := len(b)
	for range contextLines {
		if start > 0 {
			start = bytes.LastIndexByte(b[:start-1], '\n') + 1
		}
	}
	return splitLines(b[start:])
}

// after gives the first lines of b.
func after(b []byte) [][]byte {
	var lines [][]byte
	for l := range bytes.Lines(b) {
		if len(lines) == contextLines {
			break
		}
		lines = append(lines, l)
	}
	return lines
}

// span words a range of lines, as `diff -u` does: an empty one is behind the
// line it names.
func span(before, lines int) string {
	if lines == 0 {
		return fmt.Sprintf("%d,0", before)
	}
	return fmt.Sprintf("%d,%d", before+1, lines)
}
