package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
)

// execute runs a program in a container as root and gives its stdin and stdout
// as one stream. The stream outlives ctx, which bounds the start only; Close
// ends it, and the program with it.
func (b *Backend) execute(ctx context.Context, containerID string, argv ...string) (*execStream, error) {
	created, err := b.api.ContainerExecCreate(ctx, containerID, container.ExecOptions{
		User: "0", Cmd: argv, WorkingDir: "/", AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return nil, err
	}
	// The client does not watch ctx while it waits for the engine to switch
	// protocols.
	type attached struct {
		types.HijackedResponse
		err error
	}
	result := make(chan attached, 1)
	go func() {
		response, err := b.api.ContainerExecAttach(untraced(context.WithoutCancel(ctx)), created.ID, container.ExecAttachOptions{})
		result <- attached{response, err}
	}()
	select {
	case r := <-result:
		if r.err != nil {
			return nil, r.err
		}
		return &execStream{conn: r.HijackedResponse, log: b.log.With("container", containerID)}, nil
	case <-ctx.Done():
		go func() {
			if r := <-result; r.err == nil {
				r.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// execStream is the stdio of a program that the engine runs in a container. The
// engine puts an eight-byte header before each piece of output: one byte for
// the stream, three of nothing, four for the length. Reading gives stdout alone;
// the start of stderr is logged when the stream ends.
//
// Read is for one reader at a time, as is Write; Close is for anyone.
type execStream struct {
	conn types.HijackedResponse
	log  *slog.Logger
	rest int64 // bytes of stdout left in the current piece
	// stderr is the start of what the program said there, for the reader alone.
	stderr []byte
	opened sync.Once
	// onOpen is called once, when the program first speaks or the stream ends.
	onOpen func()
	closed sync.Once
}

const (
	headerSize = 8
	onStdout   = 1
	onStderr   = 2
	// maxStderr bounds what is kept of stderr: a Go program that dies in a full
	// pids cgroup writes pages, in pieces of a few bytes.
	maxStderr = 4 << 10
)

// Read implements io.Reader.
func (s *execStream) Read(p []byte) (int, error) {
	for s.rest == 0 {
		if err := s.next(); err != nil {
			s.open()
			if len(s.stderr) > 0 {
				s.log.Warn("the guest's stream ended", "stderr", strings.TrimSpace(string(s.stderr)))
				s.stderr = nil
			}
			return 0, err
		}
		s.open()
	}
	if int64(len(p)) > s.rest {
		p = p[:s.rest]
	}
	n, err := s.conn.Reader.Read(p)
	s.rest -= int64(n)
	return n, err
}

// next reads a header, and all of a piece of stderr.
func (s *execStream) next() error {
	var header [headerSize]byte
	if n, err := io.ReadFull(s.conn.Reader, header[:]); err != nil {
		if n > 0 {
			return s.refused(header[:n])
		}
		return err
	}
	size := int64(binary.BigEndian.Uint32(header[4:]))
	switch {
	case !bytes.Equal(header[1:4], []byte{0, 0, 0}):
		return s.refused(header[:])
	case header[0] == onStdout:
		s.rest = size
		return nil
	case header[0] == onStderr:
		text, err := io.ReadAll(io.LimitReader(s.conn.Reader, min(size, int64(maxStderr-len(s.stderr)))))
		s.stderr = append(s.stderr, text...)
		if err == nil {
			_, err = io.CopyN(io.Discard, s.conn.Reader, size-int64(len(text)))
		}
		return err
	}
	return s.refused(header[:])
}

// refused reads what an engine sends without a header: why it could not start
// the program.
func (s *execStream) refused(start []byte) error {
	rest, _ := io.ReadAll(io.LimitReader(s.conn.Reader, maxStderr))
	return fmt.Errorf("the engine could not start the guest's stream: %s", strings.TrimSpace(string(start)+string(rest)))
}

func (s *execStream) open() {
	s.opened.Do(func() {
		if s.onOpen != nil {
			s.onOpen()
		}
	})
}

// Write implements io.Writer.
func (s *execStream) Write(p []byte) (int, error) { return s.conn.Conn.Write(p) }

// Close implements io.Closer. It may be called again.
func (s *execStream) Close() error {
	s.closed.Do(s.conn.Close)
	s.open()
	return nil
}
