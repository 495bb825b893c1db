package rpcline

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Reader gives the lines of a stream.
type Reader struct {
	r   *bufio.Reader
	max int
}

// NewReader makes a Reader. max is the longest line in bytes; 0 is MaxBytes.
func NewReader(r io.Reader, limit int) *Reader {
	if limit <= 0 {
		limit = MaxBytes
	}
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), max: limit}
}

// TooLongError says that a line was over the limit. The line is gone, the next
// can be read.
type TooLongError struct {
	// ID is that of the request in the line, so that it can be answered; nil where
	// it was no request, or the ID was not found.
	ID  json.RawMessage
	Max int
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the message is over %d bytes, the most that is taken; send less at a time", e.Max)
}

// Next gives the next line without its line break, skipping empty ones. What is
// left without a line break at the end counts as a line. The error is
// *TooLongError, after which the next line can be read, or the stream's.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.line()
		if len(line) > 0 {
			return line, nil // an error comes again
		}
		if err != nil {
			return nil, err
		}
	}
}

func (r *Reader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.r.ReadSlice('\n')
		if len(line)+len(part) > r.max+1 { // the line break does not count
			return nil, r.skip(append(line, part...), err)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return trimBreak(line), err
	}
}

// skip reads on to the end of a line that is too long, and looks for its ID.
func (r *Reader) skip(begun []byte, err error) error {
	var s scanner
	s.feed(begun)
	for errors.Is(err, bufio.ErrBufferFull) {
		var part []byte
		part, err = r.r.ReadSlice('\n')
		s.feed(part)
	}
	// The stream's own error comes with the next line.
	return &TooLongError{ID: s.request(), Max: r.max}
}

func trimBreak(line []byte) []byte {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}

// scanner finds the ID of a request in a text that is not kept.
type scanner struct {
	depth             int
	inString, escaped bool
	value             bool   // after the colon of a key of the message itself
	token             []byte // that key or its value, as far as it is kept
	key               string
	id                json.RawMessage
	method            bool
}

// maxToken is as much as is kept of one: more than an ID may need.
const maxToken = 256

func (s *scanner) feed(text []byte) {
	for _, b := range text {
		s.step(b)
	}
}

func (s *scanner) step(b byte) {
	if s.inString {
		s.keep(b)
		switch {
		case s.escaped:
			s.escaped = false
		case b == '\\':
			s.escaped = true
		case b == '"':
			s.inString = false
		}
		return
	}
	switch b {
	case '{', '[':
		s.keep(b) // a value that is none for an ID
		s.depth++
	case '}', ']':
		s.end()
		s.depth--
	case ',':
		s.end()
	case ':':
		if s.depth == 1 && !s.value {
			s.key, s.token, s.value = string(s.token), nil, true
		}
	case ' ', '\t', '\r', '\n':
	case '"':
		s.inString = true
		s.keep(b)
	default:
		s.keep(b)
	}
}

func (s *scanner) keep(b byte) {
	if s.depth == 1 && len(s.token) <= maxToken {
		s.token = append(s.token, b)
	}
}

// end takes what stands before a comma or the end of the message.
func (s *scanner) end() {
	if s.depth != 1 {
		return
	}
	if s.value && s.key == `"id"` && len(s.token) <= maxToken && isID(s.token) {
		s.id = s.token
	}
	s.method = s.method || s.value && s.key == `"method"`
	s.value, s.token = false, nil
}

func (s *scanner) request() json.RawMessage {
	if !s.method {
		return nil
	}
	return s.id
}

func isID(token []byte) bool {
	var v any
	if json.Unmarshal(token, &v) != nil {
		return false
	}
	switch v.(type) {
	case string, float64:
		return true
	default:
		return false
	}
}
