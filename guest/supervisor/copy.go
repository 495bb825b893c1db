package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
	"github.com/mcp-sandbox/mcp-sandbox/guest/filetree"
	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
)

// Missing implements guest.API.
func (s *Supervisor) Missing(_ context.Context, req guest.MissingRequest) (guest.MissingResult, error) {
	if len(req.Digests) > guest.MaxMissing {
		return guest.MissingResult{}, guest.Errorf(guest.CodeInvalid, "%d digests; at most %d at a time", len(req.Digests), guest.MaxMissing)
	}
	return guest.MissingResult{Missing: s.staging.missing(req.Digests)}, nil
}

// Stage implements guest.API.
func (s *Supervisor) Stage(_ context.Context, body io.Reader) (guest.StageResult, error) {
	if gerr := s.enter(); gerr != nil {
		return guest.StageResult{}, gerr
	}
	defer s.work.Done()
	return s.staging.receive(body)
}

// CopyIn implements guest.API. A child that became the sandbox user makes the
// tree; it is given the contents through its stdin, as it may not read the state
// directory.
func (s *Supervisor) CopyIn(ctx context.Context, req guest.CopyInRequest) (guest.CopyInResult, error) {
	if !guest.ValidCallID(req.CallID) {
		return guest.CopyInResult{}, invalidID(req.CallID)
	}
	release, err := s.staging.take(ctx)
	if err != nil {
		return guest.CopyInResult{}, err
	}
	defer release()
	if _, known := s.journal.Lookup(req.CallID); !known {
		if gerr := s.staging.complete(req.Manifest); gerr != nil {
			return guest.CopyInResult{}, gerr
		}
	}
	applied := false
	key := journal.Key{ID: req.CallID, Op: opCopyIn, Digest: req.ArgsDigest}
	out, err := once(ctx, s, key, func(ctx context.Context) (guest.CopyInResult, *guest.Error) {
		res, gerr := s.applyTree(ctx, req)
		applied = gerr == nil
		return res, gerr
	})
	if applied || guest.CodeOf(err) == guest.CodeExhausted { // what stays would take the room that is missing
		s.staging.drop(req.Manifest)
	}
	return out, err
}

// applyTree has a child make the tree.
func (s *Supervisor) applyTree(ctx context.Context, req guest.CopyInRequest) (guest.CopyInResult, *guest.Error) {
	body, err := json.Marshal(files.Request{Op: files.OpCopyIn, CopyIn: &req, Home: s.opts.WorkDir})
	if err != nil {
		return guest.CopyInResult{}, guest.Errorf(guest.CodeInternal, "encode request: %v", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(s.opts.FileTimeout, func() { cancel(errStalled) })
	defer idle.Stop()
	var fed error // read when the child has ended, and so has the feeding
	answer, gerr := s.ask(ctx, func(in io.Writer) error {
		fed = s.feed(&lively{in, idle, s.opts.FileTimeout}, body, req.Manifest)
		idle.Reset(s.opts.FileTimeout) // for the folders' last touch
		return fed
	})
	if gerr != nil {
		return guest.CopyInResult{}, gerr
	}
	var res files.Response
	switch err := json.Unmarshal(answer, &res); {
	case err != nil && errors.Is(context.Cause(ctx), errStalled):
		return guest.CopyInResult{}, guest.Errorf(guest.CodeLost, "the copy was ended: it made no progress for %s; a part of the files may be there, copy again", s.opts.FileTimeout)
	case err != nil:
		return guest.CopyInResult{}, guest.Errorf(guest.CodeLost, "the copy died on its way (was the sandbox out of memory?); a part of the files may be there, copy again")
	case fed != nil && !errors.Is(fed, syscall.EPIPE):
		return guest.CopyInResult{}, guest.Errorf(guest.CodePrecondition, "the copy broke off: %v; a part of the files may be there, copy again", fed)
	case res.Error != nil:
		return guest.CopyInResult{}, res.Error
	case res.CopyIn == nil:
		return guest.CopyInResult{}, guest.Errorf(guest.CodeInternal, "the file operation gave an answer to another question")
	}
	return *res.CopyIn, nil
}

var errStalled = errors.New("no progress")

// lively puts off the end of a child that takes what it is given.
type lively struct {
	w    io.Writer
	idle *time.Timer
	most time.Duration
}

func (l *lively) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	if n > 0 {
		l.idle.Reset(l.most)
	}
	return n, err
}

// feed writes a request and the tree that follows it.
func (s *Supervisor) feed(in io.Writer, body []byte, manifest string) error {
	if _, err := in.Write(body); err != nil {
		return err
	}
	m, f, err := s.staging.manifest(manifest)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	w := filetree.NewFrameWriter(in)
	if err := w.JSON(filetree.FrameHeader, m.Header); err != nil {
		return err
	}
	for {
		e, err := m.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.JSON(filetree.FrameEntry, e)
		}
		if err == nil && e.Type == filetree.File {
			err = s.feedContent(w, e.SHA256)
		}
		if err != nil {
			return err
		}
	}
	if err := w.Write(filetree.FrameDone, nil); err != nil {
		return err
	}
	return w.Flush()
}

func (s *Supervisor) feedContent(w *filetree.FrameWriter, digest string) error {
	f, err := os.Open(s.staging.path(digest))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = w.Content(f)
	return err
}

// CopyOut implements guest.API. Nothing is journalled: it changes nothing.
func (s *Supervisor) CopyOut(ctx context.Context, req guest.CopyOutRequest) (io.ReadCloser, error) {
	if gerr := s.enter(); gerr != nil {
		return nil, gerr
	}
	body, err := json.Marshal(files.Request{Op: files.OpCopyOut, CopyOut: &req, Home: s.opts.WorkDir})
	if err != nil {
		s.work.Done()
		return nil, guest.Errorf(guest.CodeInternal, "encode request: %v", err)
	}
	child, gerr := s.startFileOp()
	if gerr != nil {
		s.work.Done()
		return nil, gerr
	}
	c := &childStream{s: s, child: child}
	c.stop = context.AfterFunc(ctx, c.kill)
	if _, err := child.in.Write(body); err != nil { // it has died
		s.opts.Log.Warn("copy_out: the child took no request", "error", err)
	}
	_ = child.in.Close()
	return c, nil
}

// childStream is what a child writes, until its end. A silent child is killed.
type childStream struct {
	s     *Supervisor
	child fileChild
	stop  func() bool
}

func (c *childStream) Read(p []byte) (int, error) {
	_ = c.child.out.SetReadDeadline(time.Now().Add(c.s.opts.FileTimeout))
	n, err := c.child.out.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the file operation was silent for %s: %w", c.s.opts.FileTimeout, err)
	}
	return n, err
}

func (c *childStream) kill() {
	c.s.reaper.signal(c.child.pid, syscall.SIGKILL)
	_ = c.child.out.SetReadDeadline(time.Unix(1, 0))
}

func (c *childStream) Close() error {
	c.stop()
	c.kill()
	<-c.child.exit
	_ = c.child.out.Close()
	c.s.work.Done()
	return nil
}

// routeStage serves PathStage, routeCopyOut PathCopyOut.
func (s *Supervisor) routeStage(w http.ResponseWriter, r *http.Request) {
	res, err := s.Stage(r.Context(), r.Body)
	if err == nil {
		reply(w, http.StatusOK, res)
		return
	}
	refuse(w, err)
}

func (s *Supervisor) routeCopyOut(w http.ResponseWriter, r *http.Request) {
	var req guest.CopyOutRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, guest.MaxBody)).Decode(&req); err != nil {
		reply(w, http.StatusBadRequest, guest.Errorf(guest.CodeInvalid, "request: %v", err))
		return
	}
	stream, err := s.CopyOut(r.Context(), req)
	if err != nil {
		refuse(w, err)
		return
	}
	defer func() { _ = stream.Close() }()
	buf := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buf)
	w.Header().Set("Content-Type", "application/octet-stream")
	for {
		n, err := stream.Read(buf[:])
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil { // the frames tell whether it was the end
			return
		}
	}
}
