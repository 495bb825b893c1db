//go:build linux

package files

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// errBudget says that a scan would read more than it may.
var errBudget = errors.New("too much data to scan")

var newline = []byte{'\n'}

// newlines counts line ends in [off, end) and stops after the want-th, giving
// the offset behind it; without so many it gives end (or where the file ends
// by now). It reads at most budget bytes of data, else errBudget.
func (s *source) newlines(off, end int64, want int, budget int64) (int64, int, error) {
	n := 0
	for n < want {
		off = min(s.data(off), end)
		chunk, err := s.chunk(off, end)
		if err != nil || len(chunk) == 0 {
			return off, n, err
		}
		if budget -= int64(len(chunk)); budget < 0 {
			return off, n, errBudget
		}
		found := bytes.Count(chunk, newline)
		if n+found >= want {
			for ; n < want; n++ {
				i := bytes.IndexByte(chunk, '\n') + 1
				chunk, off = chunk[i:], off+int64(i)
			}
			return off, n, nil
		}
		n, off = n+found, off+int64(len(chunk))
	}
	return off, n, nil
}

// count gives the number of lines in [off, end); what follows the last line
// end is a line too.
func (s *source) count(off, end, budget int64) (int, error) {
	_, n, err := s.newlines(off, end, int(^uint(0)>>1), budget)
	if err != nil || off >= end {
		return n, err
	}
	last, err := s.chunk(end-1, end)
	if err == nil && len(last) == 1 && last[0] != '\n' {
		n++
	}
	return n, err
}

// tail gives the offset of the n-th line from the end and how many lines follow
// it, itself included: fewer than n when the file has no more.
func (s *source) tail(n int, budget int64) (int64, int, error) {
	end := s.size
	if end == 0 {
		return 0, 0, nil
	}
	last, err := s.chunk(end-1, end)
	if err != nil {
		return 0, 0, err
	}
	if len(last) == 1 && last[0] == '\n' {
		end-- // it ends the last line and begins none
	}
	found := 0
	for end > 0 {
		start := max(0, end-chunkSize)
		chunk, err := s.chunk(start, end)
		if err != nil {
			return 0, 0, err
		}
		if budget -= int64(len(chunk)); budget < 0 {
			return 0, 0, errBudget
		}
		for {
			i := bytes.LastIndexByte(chunk, '\n')
			if i < 0 {
				break
			}
			if found++; found == n {
				return start + int64(i) + 1, n, nil
			}
			chunk = chunk[:i]
		}
		end = start
	}
	return 0, found + 1, nil
}

// line is one line, perhaps cut.
type line struct {
	text   []byte // without the ending; valid until the next call of next
	ending []byte // "\n", "\r\n", or nothing at the end of the file
	cut    bool
	// endless says that its end was not found within the budget.
	endless bool
}

// lines reads a source line by line from an offset.
type lines struct {
	src    *source
	off    int64 // where the next line begins
	budget int64 // for the scan of one line that is cut
	br     *bufio.Reader
	text   []byte
}

func (s *source) lines(off, budget int64) *lines {
	l := &lines{src: s, budget: budget, br: bufio.NewReaderSize(nil, 64<<10)}
	l.seek(off)
	return l
}

func (l *lines) seek(off int64) {
	l.off = off
	l.br.Reset(io.NewSectionReader(l.src, off, l.src.size-off))
}

// next gives the next line, its text cut to limit bytes on a UTF-8 boundary, or
// io.EOF. It holds little more than limit bytes of a line.
func (l *lines) next(limit int) (line, error) {
	l.text = l.text[:0]
	for {
		part, err := l.br.ReadSlice('\n')
		l.text = append(l.text, part...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(l.text) > 0:
			l.off += int64(len(l.text))
			text, ending := chomp(l.text)
			kept := cutText(text, limit)
			return line{text: kept, ending: ending, cut: len(kept) < len(text)}, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line{}, err
		case len(l.text) > limit+utf8.UTFMax:
			return l.skip(limit)
		}
	}
}

// skip cuts the line whose begin is in l.text and goes on behind its end.
func (l *lines) skip(limit int) (line, error) {
	res := line{text: cutText(l.text, limit), cut: true}
	end, _, err := l.src.newlines(l.off+int64(len(l.text)), l.src.size, 1, l.budget)
	if errors.Is(err, errBudget) {
		res.endless = true
		return res, nil
	}
	if err != nil {
		return line{}, err
	}
	last, err := l.src.chunk(end-2, end)
	if err != nil {
		return line{}, err
	}
	_, ending := chomp(last)
	res.ending = bytes.Clone(ending)
	l.seek(end)
	return res, nil
}

// chomp splits a line into its text and its ending.
func chomp(b []byte) (text, ending []byte) {
	n := len(b)
	switch {
	case bytes.HasSuffix(b, []byte("\r\n")):
		n -= 2
	case bytes.HasSuffix(b, newline):
		n--
	}
	return b[:n], b[n:]
}

// cutText gives at most n bytes of b and no part of a rune; where b is not
// UTF-8, exactly n.
func cutText(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	for i := n; i >= 0 && i > n-utf8.UTFMax; i-- {
		if !utf8.RuneStart(b[i]) {
			continue
		}
		if _, size := utf8.DecodeRune(b[i:]); i+size > n {
			return b[:i]
		}
		break
	}
	return b[:n]
}
