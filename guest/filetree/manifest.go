package filetree

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// maxLine bounds one line: a path and a target, each byte escaped to six.
	maxLine = 64 << 10
	// MaxManifest bounds a manifest: 128 MiB. It is read line by line.
	MaxManifest = 128 << 20
)

// ManifestWriter writes a manifest. Entries are checked, so that what was
// written can be read.
type ManifestWriter struct {
	w      *bufio.Writer
	check  checker
	counts Counts
	size   int64
}

// NewManifestWriter writes the header. Call Flush after the last entry.
func NewManifestWriter(w io.Writer, h Header) (*ManifestWriter, error) {
	m := &ManifestWriter{w: bufio.NewWriter(w)}
	if err := m.check.header(h); err != nil {
		return nil, err
	}
	return m, m.line(h)
}

// Write adds an entry.
func (m *ManifestWriter) Write(e Entry) error {
	if err := m.check.entry(e); err != nil {
		return err
	}
	m.counts.Add(e)
	return m.line(e)
}

func (m *ManifestWriter) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if m.size += int64(len(b)) + 1; m.size > MaxManifest {
		return fmt.Errorf("%w: more than %d MiB of names", ErrManifest, MaxManifest>>20)
	}
	if _, err := m.w.Write(append(b, '\n')); err != nil {
		return err
	}
	return nil
}

// Counts says what was written.
func (m *ManifestWriter) Counts() Counts { return m.counts }

// Flush writes what is still held back.
func (m *ManifestWriter) Flush() error {
	if !m.check.begun {
		return fmt.Errorf("%w: no root", ErrManifest)
	}
	return m.w.Flush()
}

// ManifestReader reads and checks a manifest.
type ManifestReader struct {
	// Header is the manifest's.
	Header Header
	lines  *bufio.Scanner
	check  checker
	size   int64
}

// NewManifestReader reads the header.
func NewManifestReader(r io.Reader) (*ManifestReader, error) {
	m := &ManifestReader{lines: bufio.NewScanner(r)}
	m.lines.Buffer(make([]byte, 0, 8<<10), maxLine)
	if err := m.line(&m.Header); err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: it is empty", ErrManifest)
		}
		return nil, err
	}
	return m, m.check.header(m.Header)
}

// Next gives the next entry, io.EOF after the last. Other errors are of the
// reader, or wrap ErrManifest.
func (m *ManifestReader) Next() (Entry, error) {
	var e Entry
	if err := m.line(&e); err != nil {
		if errors.Is(err, io.EOF) && !m.check.begun {
			err = fmt.Errorf("%w: no root", ErrManifest)
		}
		return e, err
	}
	return e, m.check.entry(e)
}

func (m *ManifestReader) line(v any) error {
	if !m.lines.Scan() {
		err := m.lines.Err()
		switch {
		case err == nil:
			return io.EOF
		case errors.Is(err, bufio.ErrTooLong):
			return fmt.Errorf("%w: a line of more than %d KiB", ErrManifest, maxLine>>10)
		}
		return err
	}
	if m.size += int64(len(m.lines.Bytes())) + 1; m.size > MaxManifest {
		return fmt.Errorf("%w: more than %d MiB", ErrManifest, MaxManifest>>20)
	}
	return decode(m.lines.Bytes(), v)
}

// decode takes exactly one JSON value with known fields.
func decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more than one value in a line", ErrManifest)
	}
	return nil
}
