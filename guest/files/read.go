//go:build linux

package files

import (
	"errors"
	"io"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

const (
	// maxCount is how much data is read to count lines, or backwards to find a
	// line counted from the end. Beyond it TotalLines is -1.
	maxCount = 256 << 20
	// maxLocate is how much data is read to find StartLine.
	maxLocate = 1 << 30
)

// Read reads lines of a regular file, or all of it with Whole. It follows
// links, waits for nothing, and changes nothing. Bytes are as in the file.
//
// MaxBytes 0 is guest.MaxInline. A line ends with "\n"; text behind the last
// one is a line too. Only whole lines are given, but for lines over
// MaxLineBytes, which keep their ending, and a first line over MaxBytes. A
// negative StartLine beyond the first line is the first line. Where lines
// cannot be counted within 256 MiB of data (holes are free) TotalLines is -1,
// and a read from the end gives StartLine and EndLine as negative numbers.
//
// Whole takes no line bounds but StartLine 1, and cuts no line.
//
// Errors: CodeNotFound, CodePermission; CodePrecondition for what is no regular
// file; CodeInvalid for bad bounds and a StartLine past the end; CodeTooLarge.
func Read(home string, req guest.ReadFileRequest) (guest.File, error) {
	path, err := absolute(home, req.Path)
	if err != nil {
		return guest.File{}, err
	}
	if req.MaxBytes == 0 {
		req.MaxBytes = guest.MaxInline
	}
	if err := checkBounds(req); err != nil {
		return guest.File{}, err
	}
	f, st, err := openRegular(path)
	if err != nil {
		return guest.File{}, explain(doRead, path, err)
	}
	defer func() { _ = f.Close() }()
	src, err := newSource(f, st)
	if err != nil {
		return guest.File{}, explain(doRead, path, err)
	}
	res := guest.File{Path: resolved(path), Size: src.size, Mode: st.Mode & 0o777}
	if req.Whole {
		err = src.whole(path, req.MaxBytes, &res)
	} else {
		err = src.window(path, req, &res)
	}
	if err != nil {
		return guest.File{}, explain(doRead, path, err)
	}
	if res.SHA256, err = src.sha256(); err != nil {
		return guest.File{}, explain(doRead, path, err)
	}
	return res, nil
}

func checkBounds(req guest.ReadFileRequest) error {
	switch {
	case req.MaxBytes < 0 || req.MaxBytes > guest.MaxInline:
		return guest.Errorf(guest.CodeInvalid, "max_bytes is %d; it must be between 1 and %d", req.MaxBytes, guest.MaxInline)
	case req.MaxLines < 0:
		return guest.Errorf(guest.CodeInvalid, "max_lines is %d; it must not be negative", req.MaxLines)
	case req.MaxLineBytes < 0:
		return guest.Errorf(guest.CodeInvalid, "max_line_bytes is %d; it must not be negative", req.MaxLineBytes)
	case req.Whole && (req.MaxLines != 0 || req.StartLine != 0 && req.StartLine != 1):
		return guest.Errorf(guest.CodeInvalid, "a whole file was asked for together with a range of lines; leave out one of them")
	}
	return nil
}

// whole fills in all of a file that fits into limit bytes.
func (s *source) whole(path string, limit int, res *guest.File) error {
	if s.size > int64(limit) {
		return guest.Errorf(guest.CodeTooLarge,
			"%s has %d bytes, more than the %d that one answer carries: read it in parts by lines (offset and limit), or by bytes with `tail -c +N FILE | head -c %d | base64` through run_command",
			path, s.size, limit, limit/2)
	}
	data, err := s.all()
	if err != nil {
		return err
	}
	res.Content = data
	if res.TotalLines, err = s.count(0, s.size, maxCount); err != nil {
		return err
	}
	res.StartLine, res.EndLine = min(1, res.TotalLines), res.TotalLines
	return nil
}

// window fills in the lines that req asks for.
func (s *source) window(path string, req guest.ReadFileRequest, res *guest.File) error {
	if s.size == 0 && req.StartLine <= 1 {
		res.Content = []byte{}
		return nil
	}
	start, before, fromEnd, err := s.locate(path, req.StartLine)
	if err != nil {
		return err
	}
	taken, end, endless, err := s.take(start, req, res)
	if err != nil {
		return err
	}
	res.Truncated = res.LinesCut > 0 || end < s.size
	res.StartLine, res.EndLine = before+1, before+taken
	after, err := 0, errBudget
	if !endless {
		after, err = s.count(end, s.size, maxCount)
	}
	switch {
	case errors.Is(err, errBudget):
		res.TotalLines = -1
	case err != nil:
		return err
	default:
		res.TotalLines = before + taken + after
	}
	if before < 0 { // lines before could not be counted
		res.TotalLines = -1
		res.StartLine, res.EndLine = -fromEnd, -fromEnd+taken-1
	}
	return nil
}

// locate finds where a line begins. before is the number of lines before it, or
// -1 when they cannot be counted; then it is the fromEnd-th from the end.
func (s *source) locate(path string, line int) (start int64, before, fromEnd int, err error) {
	if line < 0 {
		start, fromEnd, err = s.tail(-line, maxCount)
		if errors.Is(err, errBudget) {
			return 0, 0, 0, guest.Errorf(guest.CodeTooLarge,
				"the last %d lines of %s are more than %s: ask for fewer, or use `tail -c` through run_command", -line, path, bytesOf(maxCount))
		}
		if err != nil {
			return 0, 0, 0, err
		}
		before, err = s.count(0, start, maxCount)
		if errors.Is(err, errBudget) {
			return start, -1, fromEnd, nil
		}
		return start, before, fromEnd, err
	}
	before = max(line, 1) - 1
	start, found, err := s.newlines(0, s.size, before, maxLocate)
	if errors.Is(err, errBudget) {
		return 0, 0, 0, guest.Errorf(guest.CodeTooLarge,
			"line %d of %s lies behind more than %s: read from the end with a negative offset, or use `sed -n` through run_command", line, path, bytesOf(maxLocate))
	}
	if err != nil {
		return 0, 0, 0, err
	}
	if found < before || start >= s.size {
		total, err := s.count(0, s.size, maxLocate)
		if err != nil {
			return 0, 0, 0, err
		}
		return 0, 0, 0, guest.Errorf(guest.CodeInvalid,
			"line %d is past the end of %s, which has %d lines; start at one of them, or count from the end with a negative offset", line, path, total)
	}
	return start, before, 0, nil
}

// take fills in content from start on. It gives the number of lines, the offset
// behind the last, and whether that line's end is unknown.
func (s *source) take(start int64, req guest.ReadFileRequest, res *guest.File) (taken int, end int64, endless bool, err error) {
	limit := req.MaxBytes
	if req.MaxLineBytes > 0 {
		limit = min(limit, req.MaxLineBytes)
	}
	res.Content = []byte{}
	lines := s.lines(start, maxCount)
	end = start
	for !endless && (req.MaxLines == 0 || taken < req.MaxLines) {
		l, err := lines.next(limit)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, 0, false, err
		}
		if len(l.text)+len(l.ending) > req.MaxBytes-len(res.Content) {
			if taken > 0 {
				break
			}
			l = l.fit(req.MaxBytes)
		}
		res.Content = append(append(res.Content, l.text...), l.ending...)
		if l.cut {
			res.LinesCut++
		}
		taken, end, endless = taken+1, lines.off, l.endless
	}
	return taken, end, endless, nil
}

// fit cuts a line and its ending to n bytes.
func (l line) fit(n int) line {
	if len(l.ending) >= n {
		l.ending = nil
	}
	kept := cutText(l.text, n-len(l.ending))
	l.cut, l.text = true, kept
	return l
}
