//go:build linux

package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

const (
	// maxMemory is the largest file that is read into memory at once: its
	// lines, totals and hash are of one moment. Larger ones are streamed.
	maxMemory = 4 << 20
	// maxHash is the largest file that is hashed.
	maxHash = 64 << 20
	// chunkSize is how much is scanned at a time.
	chunkSize = 256 << 10
)

// source is the content of an open file: in memory when it is small or lives in
// /proc, where sizes are not known in advance, else on disk.
type source struct {
	io.ReaderAt
	size int64
	file *os.File // nil when the content is in memory
	buf  []byte   // for scanning
}

// newSource takes a file of at most maxMemory into memory.
func newSource(f *os.File, st *unix.Stat_t) (*source, error) {
	if st.Size > maxMemory {
		return &source{ReaderAt: f, size: st.Size, file: f, buf: make([]byte, chunkSize)}, nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxMemory+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxMemory {
		return nil, guest.Errorf(guest.CodeTooLarge,
			"%s grows while it is read, or has no size; copy the part you need to a file with `head` or `tail` through run_command", f.Name())
	}
	return &source{ReaderAt: bytes.NewReader(data), size: int64(len(data)), buf: make([]byte, min(chunkSize, len(data)))}, nil
}

// all gives the whole content; the caller has looked at size.
func (s *source) all() ([]byte, error) {
	data := make([]byte, s.size)
	n, err := s.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return data[:n], nil
}

// chunk gives the bytes of [off, end), at most chunkSize of them and none where
// the file has become shorter. They are valid until the next call.
func (s *source) chunk(off, end int64) ([]byte, error) {
	n, err := s.ReadAt(s.buf[:min(int64(len(s.buf)), end-off)], off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return s.buf[:n], nil
}

// data skips a hole: a sparse file of any size is scanned in the time that its
// data takes.
func (s *source) data(off int64) int64 {
	if s.file == nil {
		return off
	}
	at, err := unix.Seek(int(s.file.Fd()), off, unix.SEEK_DATA)
	switch {
	case err == nil:
		return at
	case errors.Is(err, unix.ENXIO):
		return s.size // nothing but a hole follows
	default:
		return off // the file system does not tell
	}
}

// sha256 is the hash of the whole content in hex, or "" over maxHash.
func (s *source) sha256() (string, error) {
	if s.size > maxHash {
		return "", nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(s, 0, s.size)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
