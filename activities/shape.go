package activities

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// encodingOf chooses the encoding of a command's two streams, which is one for
// both.
func encodingOf(stdout, stderr guest.Stream) string {
	out, oerr := trim(stdout), trim(stderr)
	switch {
	case valid(out) && valid(oerr):
		return session.UTF8
	case binary(out) || binary(oerr):
		return session.Base64
	default:
		return session.UTF8Lossy
	}
}

// show gives a stream's text. A cut never splits a character, and a marker line
// stands where bytes were left out; within base64 none can, so there the head
// alone goes.
func show(name string, s guest.Stream, encoding string) string {
	if encoding == session.Base64 {
		return base64.StdEncoding.EncodeToString(head(s))
	}
	return join(name, trim(s))
}

// trim moves the edges of a cut to whole characters, where there are any.
func trim(s guest.Stream) guest.Stream {
	if !s.Cut() {
		return guest.Stream{Head: append(bytes.Clone(s.Head), s.Tail...), Total: s.Total, Logged: s.Logged}
	}
	s.Head = s.Head[:len(s.Head)-partialEnd(s.Head)]
	s.Tail = s.Tail[partialStart(s.Tail):]
	return s
}

// partialEnd counts the bytes of an unfinished character at the end of b.
func partialEnd(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		c := b[len(b)-n]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// partialStart counts the bytes of a character that began before b, which may be
// all there are.
func partialStart(b []byte) int {
	for n := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[n]) {
			return n
		}
	}
	if len(b) < utf8.UTFMax {
		return len(b)
	}
	return 0
}

func valid(s guest.Stream) bool { return utf8.Valid(s.Head) && utf8.Valid(s.Tail) }

// binary tells whether bytes are no text in any common encoding: a NUL, or more
// than a third of them invalid or control characters.
func binary(s guest.Stream) bool {
	sample := append(bytes.Clone(s.Head[:min(len(s.Head), 4096)]), s.Tail[:min(len(s.Tail), 4096)]...)
	if bytes.IndexByte(sample, 0) >= 0 {
		return true
	}
	odd := 0
	for i := 0; i < len(sample); {
		r, n := utf8.DecodeRune(sample[i:])
		if r == utf8.RuneError && n == 1 || r < ' ' && !strings.ContainsRune("\t\n\r\b\f\x1b", r) {
			odd++
		}
		i += n
	}
	return odd*3 > len(sample)
}

func head(s guest.Stream) []byte {
	if s.Cut() {
		return s.Head
	}
	return append(bytes.Clone(s.Head), s.Tail...)
}

// join puts the marker between head and tail of a cut stream.
func join(name string, s guest.Stream) string {
	if !s.Cut() {
		return lossy(append(bytes.Clone(s.Head), s.Tail...))
	}
	left := s.Total - int64(len(s.Head)) - int64(len(s.Tail))
	nl := "\n"
	if len(s.Head) == 0 || s.Head[len(s.Head)-1] == '\n' {
		nl = ""
	}
	return fmt.Sprintf("%s%s[... %d of %d bytes left out; read_output stream=%s offset=%d reads on ...]\n%s",
		lossy(s.Head), nl, left, s.Total, name, len(s.Head), lossy(s.Tail))
}

func lossy(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// shapeChunk gives the text of a slice of a stream and how many of its bytes
// the text holds: a character that is cut at the end waits for the next slice,
// unless nothing follows.
func shapeChunk(b []byte, encoding string, last bool) (text, enc string, used int) {
	if encoding == session.Base64 {
		return base64.StdEncoding.EncodeToString(b), session.Base64, len(b)
	}
	if !last {
		b = b[:len(b)-partialEnd(b)]
	}
	if utf8.Valid(b) {
		return string(b), session.UTF8, len(b)
	}
	return lossy(b), session.UTF8Lossy, len(b)
}
