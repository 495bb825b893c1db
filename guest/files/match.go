//go:build linux

package files

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

const (
	// maxReplacements bounds the memory of a ReplaceAll.
	maxReplacements = 1 << 20
	// maxAmbiguous is up to how many matches are counted for a message.
	maxAmbiguous = 1000
	// maxLineNumbers is how many of their lines a message names.
	maxLineNumbers = 10
)

// edit says that text takes the place of [start, end).
type edit struct {
	start, end int
	text       []byte
}

var crlf = []byte("\r\n")

// find gives the edits that req asks for, in order, or says why there are none.
func find(path string, text []byte, req guest.EditFileRequest) ([]edit, error) {
	old := []byte(req.OldStr)
	// Matching goes on in a copy with LF only: so a mixed file works too.
	plain := text
	if bytes.Contains(text, crlf) && !strings.ContainsRune(req.OldStr, '\r') {
		plain = bytes.ReplaceAll(text, crlf, newline)
	}
	first := bytes.Index(plain, old)
	if first < 0 {
		return nil, noMatch(path, plain, req)
	}
	if !req.ReplaceAll {
		if bytes.Contains(plain[first+1:], old) {
			return nil, ambiguous(path, plain, old)
		}
		return restore(text, plain, []int{first}, req), nil
	}
	var starts []int
	for at := first; ; {
		if len(starts) == maxReplacements {
			return nil, guest.Errorf(guest.CodeTooLarge,
				"old_str occurs more than %d times in %s: use sed or a script through run_command", maxReplacements, path)
		}
		starts = append(starts, at)
		at += len(old)
		next := bytes.Index(plain[at:], old)
		if next < 0 {
			break
		}
		at += next
	}
	return restore(text, plain, starts, req), nil
}

// restore maps matches in plain back to text, where a CRLF of text is the one
// LF of plain, and gives each its replacement with the right line ends.
func restore(text, plain []byte, starts []int, req guest.EditFileRequest) []edit {
	edits := make([]edit, 0, len(starts))
	convert := bytes.Contains(text, crlf) && strings.ContainsRune(req.NewStr, '\n') && !strings.ContainsRune(req.NewStr, '\r') &&
		!strings.ContainsRune(req.OldStr, '\r')
	asLF := []byte(req.NewStr)
	asCRLF := asLF
	if convert {
		asCRLF = bytes.ReplaceAll(asLF, newline, crlf)
	}
	mostly := 2*bytes.Count(text, crlf) > bytes.Count(text, newline)
	same := len(text) == len(plain) // then there is nothing to map
	pos, plainPos := 0, 0
	forward := func(to int) int {
		if same {
			return to
		}
		for ; plainPos < to; plainPos++ {
			if text[pos] == '\r' && plain[plainPos] == '\n' {
				pos++
			}
			pos++
		}
		return pos
	}
	for _, s := range starts {
		e := edit{start: forward(s), end: forward(s + len(req.OldStr)), text: asLF}
		matched := text[e.start:e.end]
		if bytes.Contains(matched, crlf) || mostly && !bytes.Contains(matched, newline) {
			e.text = asCRLF
		}
		edits = append(edits, e)
	}
	return edits
}

// ambiguous names the lines where old begins. Matches that overlap count too:
// which of them is meant is just as unclear.
func ambiguous(path string, plain, old []byte) *guest.Error {
	var lines []string
	count, line, counted := 0, 1, 0
	for at := bytes.Index(plain, old); ; {
		if count++; count > maxAmbiguous {
			break
		}
		if len(lines) < maxLineNumbers {
			line += bytes.Count(plain[counted:at], newline)
			counted = at
			lines = append(lines, strconv.Itoa(line))
		}
		next := bytes.Index(plain[at+1:], old)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	times, more := strconv.Itoa(count), ""
	if count > maxAmbiguous {
		times = fmt.Sprintf("more than %d", maxAmbiguous)
	}
	if count > len(lines) {
		more = ", ..."
	}
	return guest.Errorf(guest.CodePrecondition,
		"old_str occurs %s times in %s, beginning on lines %s%s; nothing was changed: add lines around it until it occurs once, or set replace_all",
		times, path, strings.Join(lines, ", "), more)
}
