//go:build linux

package files

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

const (
	// maxShown is how many bytes of a line a message shows.
	maxShown = 200
	// minTelling is from how many bytes on it means something that new_str is
	// in the file.
	minTelling = 8
)

// noMatch says that old_str is not in plain, and what there is that looks like
// it: agents mostly err in white space, or in a line that changed since.
func noMatch(path string, plain []byte, req guest.EditFileRequest) *guest.Error {
	var b strings.Builder
	fmt.Fprintf(&b, "old_str is not in %s; nothing was changed.", path)
	if len(plain) == 0 {
		b.WriteString(" the file is empty: use write_file")
		return &guest.Error{Code: guest.CodePrecondition, Message: b.String()}
	}
	if len(strings.TrimSpace(req.NewStr)) >= minTelling {
		if at := bytes.Index(plain, []byte(req.NewStr)); at >= 0 {
			fmt.Fprintf(&b, " new_str is there already, on line %d: the edit may have been made before.", lineOf(plain, at))
		}
	}
	if !utf8.Valid(plain) {
		b.WriteString(" the file is not UTF-8: what is not ASCII can only be changed with a script through run_command.")
	}
	wanted := strings.Split(req.OldStr, "\n") // a CR of its own stays: it may be what differs
	showSimilar(&b, plain, wanted)
	b.WriteString("\nread the file again and copy the text exactly, white space included")
	return &guest.Error{Code: guest.CodePrecondition, Message: b.String()}
}

// showSimilar writes the lines most similar to the first wanted line that is
// not blank, and where the best of them leaves what is wanted.
func showSimilar(b *strings.Builder, plain []byte, wanted []string) {
	first := 0
	for first < len(wanted)-1 && strings.TrimSpace(wanted[first]) == "" {
		first++
	}
	like := newLikeness(wanted[first])
	var best ranking // of offsets
	offset := 0
	for l := range bytes.Lines(plain) {
		best.add(offset, like.score(l))
		offset += len(l)
	}
	if len(best) == 0 {
		return
	}
	b.WriteString("\nthe most similar lines:")
	for _, c := range best {
		fmt.Fprintf(b, "\n%6d: %s", lineOf(plain, c.index), show(firstLine(plain[c.index:])))
	}
	at := best[0].index
	showDifference(b, plain[at:], lineOf(plain, at), wanted[first:])
}

// showDifference writes the first line in which rest, the file from line number
// on, is not as wanted. The first wanted line may begin, and the last end, in
// mid-line.
func showDifference(b *strings.Builder, rest []byte, number int, wanted []string) {
	for i, w := range wanted {
		if len(rest) == 0 {
			fmt.Fprintf(b, "\nthe file ends before this of old_str: %s", show([]byte(strings.Join(wanted[i:], "\n"))))
			return
		}
		have := firstLine(rest)
		if !agrees(have, []byte(w), i == 0, i == len(wanted)-1) {
			fmt.Fprintf(b, "\nfirst difference on line %d:\n  file:    %s\n  old_str: %s", number+i, show(have), show([]byte(w)))
			return
		}
		rest = rest[min(len(have)+1, len(rest)):]
	}
}

func agrees(have, wanted []byte, first, last bool) bool {
	switch {
	case first && last:
		return bytes.Contains(have, wanted)
	case first:
		return bytes.HasSuffix(have, wanted)
	case last:
		return bytes.HasPrefix(have, wanted)
	default:
		return bytes.Equal(have, wanted)
	}
}

func firstLine(b []byte) []byte {
	line, _, _ := bytes.Cut(b, newline)
	return line
}

// show quotes a line, so that tabs and spaces can be told apart, and cuts it.
func show(line []byte) string {
	if cut := cutText(line, maxShown); len(cut) < len(line) {
		return fmt.Sprintf("%q...", cut)
	}
	return fmt.Sprintf("%q", line)
}

func lineOf(text []byte, at int) int { return 1 + bytes.Count(text[:at], newline) }
