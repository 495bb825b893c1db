package filetree

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Kind is what a frame carries.
type Kind byte

// The kinds of frames. A frame is its kind (1 byte), the length of its payload
// (4 bytes, big-endian) and the payload.
const (
	// FrameHeader carries a Header, FrameEntry an Entry, as JSON.
	FrameHeader Kind = 'H'
	FrameEntry  Kind = 'E'
	// FrameBlob begins a content that has a name: a BlobName as JSON.
	FrameBlob Kind = 'B'
	// FrameData carries bytes of a content, FrameEnd ends it.
	FrameData Kind = 'D'
	FrameEnd  Kind = 'X'
	// FrameDone ends a stream that is whole; without it, it was cut off. Its
	// payload is up to whoever speaks.
	FrameDone Kind = 'Z'
	// FrameFail ends a stream with an error; its payload likewise.
	FrameFail Kind = 'F'
)

// maxFrame bounds a payload.
const maxFrame = 64 << 10

// BlobName names a content that follows.
type BlobName struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// ErrFrame is wrapped by the errors of a stream that breaks the rules.
var ErrFrame = errors.New("bad stream")

// FrameWriter writes frames.
type FrameWriter struct {
	w   *bufio.Writer
	buf []byte
}

// NewFrameWriter makes one. Call Flush after the last frame.
func NewFrameWriter(w io.Writer) *FrameWriter {
	return &FrameWriter{w: bufio.NewWriterSize(w, maxFrame+8)}
}

// Write writes a frame.
func (f *FrameWriter) Write(kind Kind, payload []byte) error {
	if len(payload) > maxFrame {
		return fmt.Errorf("%w: a frame of %d bytes", ErrFrame, len(payload))
	}
	head := [5]byte{byte(kind)}
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload))) //nolint:gosec // checked
	if _, err := f.w.Write(head[:]); err != nil {
		return err
	}
	_, err := f.w.Write(payload)
	return err
}

// JSON writes a frame with a value.
func (f *FrameWriter) JSON(kind Kind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.Write(kind, b)
}

// Content writes all that r gives, in FrameData and a FrameEnd.
func (f *FrameWriter) Content(r io.Reader) (int64, error) {
	if f.buf == nil {
		f.buf = make([]byte, maxFrame)
	}
	var total int64
	for {
		n, err := r.Read(f.buf)
		total += int64(n)
		if n > 0 {
			if err := f.Write(FrameData, f.buf[:n]); err != nil {
				return total, err
			}
		}
		if errors.Is(err, io.EOF) {
			return total, f.Write(FrameEnd, nil)
		}
		if err != nil {
			return total, err
		}
	}
}

// Flush sends what is still held back.
func (f *FrameWriter) Flush() error { return f.w.Flush() }

// FrameReader reads frames.
type FrameReader struct {
	r   *bufio.Reader
	buf []byte
}

// NewFrameReader makes one, which may read ahead.
func NewFrameReader(r io.Reader) *FrameReader {
	return &FrameReader{r: bufio.NewReaderSize(r, maxFrame)}
}

// Next reads a frame. The payload is valid until the next call. A stream that
// ends here without FrameDone or FrameFail gives io.ErrUnexpectedEOF.
func (f *FrameReader) Next() (Kind, []byte, error) {
	kind, n, err := f.head()
	if err != nil {
		return 0, nil, err
	}
	if cap(f.buf) < n {
		f.buf = make([]byte, n, max(n, 4<<10))
	}
	f.buf = f.buf[:n]
	if _, err := io.ReadFull(f.r, f.buf); err != nil {
		return 0, nil, cut(err)
	}
	return kind, f.buf, nil
}

func (f *FrameReader) head() (Kind, int, error) {
	var head [5]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return 0, 0, cut(err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, 0, fmt.Errorf("%w: a frame of %d bytes", ErrFrame, n)
	}
	return Kind(head[0]), int(n), nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Content reads the content whose frames come next, to its FrameEnd.
func (f *FrameReader) Content() io.Reader { return &content{f: f} }

type content struct {
	f     *FrameReader
	left  int
	ended bool
}

func (c *content) Read(p []byte) (int, error) {
	for c.left == 0 {
		if c.ended {
			return 0, io.EOF
		}
		kind, n, err := c.f.head()
		switch {
		case err != nil:
			return 0, err
		case kind == FrameEnd && n == 0:
			c.ended = true
		case kind == FrameData:
			c.left = n
		default:
			return 0, fmt.Errorf("%w: frame %q within a content", ErrFrame, byte(kind))
		}
	}
	n, err := c.f.r.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, cut(err)
}
