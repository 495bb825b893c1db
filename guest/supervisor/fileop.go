package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
	"github.com/mcp-sandbox/mcp-sandbox/guest/journal"
)

// maxAnswer bounds what a file operation's child may answer.
const maxAnswer = 4 << 20

// ReadFile implements guest.API. Nothing is journalled: it changes nothing.
func (s *Supervisor) ReadFile(ctx context.Context, req guest.ReadFileRequest) (guest.File, error) {
	if gerr := s.enter(); gerr != nil {
		return guest.File{}, gerr
	}
	defer s.work.Done()
	res, gerr := s.fileOp(ctx, files.Request{Op: files.OpRead, Read: &req})
	if gerr != nil {
		if gerr.Code == guest.CodeLost {
			gerr = guest.Errorf(guest.CodeExhausted, "%s; nothing was changed", gerr.Message)
		}
		return guest.File{}, gerr
	}
	return *res.Read, nil
}

// WriteFile implements guest.API.
func (s *Supervisor) WriteFile(ctx context.Context, req guest.WriteFileRequest) (guest.WriteResult, error) {
	if len(req.Content) > guest.MaxInline {
		return guest.WriteResult{}, tooLarge("the content", len(req.Content))
	}
	key := journal.Key{ID: req.CallID, Op: opWrite, Digest: req.ArgsDigest}
	return once(ctx, s, key, func(ctx context.Context) (r guest.WriteResult, gerr *guest.Error) {
		defer s.turns.take(s.opts.WorkDir, req.Path)()
		res, gerr := s.fileOp(ctx, files.Request{Op: files.OpWrite, Write: &req})
		if gerr == nil {
			r = *res.Write
		}
		return r, gerr
	})
}

// EditFile implements guest.API.
func (s *Supervisor) EditFile(ctx context.Context, req guest.EditFileRequest) (guest.EditResult, error) {
	if n := max(len(req.OldStr), len(req.NewStr)); n > guest.MaxInline {
		return guest.EditResult{}, tooLarge("old_str or new_str", n)
	}
	key := journal.Key{ID: req.CallID, Op: opEdit, Digest: req.ArgsDigest}
	return once(ctx, s, key, func(ctx context.Context) (r guest.EditResult, gerr *guest.Error) {
		defer s.turns.take(s.opts.WorkDir, req.Path)()
		res, gerr := s.fileOp(ctx, files.Request{Op: files.OpEdit, Edit: &req})
		if gerr == nil {
			r = *res.Edit
		}
		return r, gerr
	})
}

// fileOp has a child perform one operation. CodeLost means that it was started
// and gave no answer: it was killed, for its time or by the OOM killer.
func (s *Supervisor) fileOp(ctx context.Context, req files.Request) (files.Response, *guest.Error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.FileTimeout)
	defer cancel()
	req.Home = s.opts.WorkDir
	body, err := json.Marshal(req)
	if err != nil {
		return files.Response{}, guest.Errorf(guest.CodeInternal, "encode request: %v", err)
	}
	answer, gerr := s.ask(ctx, func(in io.Writer) error {
		_, err := in.Write(body)
		return err
	})
	if gerr != nil {
		return files.Response{}, gerr
	}
	var res files.Response
	if err := json.Unmarshal(answer, &res); err != nil {
		if ctx.Err() != nil {
			return res, guest.Errorf(guest.CodeLost, "the file operation was ended after %s without an answer", s.opts.FileTimeout)
		}
		return res, guest.Errorf(guest.CodeLost, "the file operation died without an answer")
	}
	if res.Error != nil {
		return res, res.Error
	}
	if (req.Read != nil) != (res.Read != nil) || (req.Write != nil) != (res.Write != nil) || (req.Edit != nil) != (res.Edit != nil) {
		return res, guest.Errorf(guest.CodeInternal, "the file operation gave an answer to another question")
	}
	return res, nil
}

// fileChild is a child that performs a file operation.
type fileChild struct {
	pid     int
	exit    <-chan syscall.WaitStatus
	in, out *os.File
}

// startFileOp starts the child, which is still root: it drops its identity
// itself, as the first thing it does.
func (s *Supervisor) startFileOp() (fileChild, *guest.Error) {
	if len(s.opts.FileOp) == 0 {
		return fileChild{}, guest.Errorf(guest.CodeInternal, "no file operations in this guest")
	}
	childIn, in, err := pipe(1)
	if err != nil {
		return fileChild{}, s.forkError(err, "/")
	}
	out, childOut, err := pipe(0)
	if err != nil {
		closeAll(childIn, in)
		return fileChild{}, s.forkError(err, "/")
	}
	pid, exit, err := s.spawner.start(spawn{
		argv: s.opts.FileOp, env: []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}, dir: "/",
		files: []*os.File{childIn, childOut, os.Stderr},
	})
	closeAll(childIn, childOut)
	if err != nil {
		closeAll(in, out)
		return fileChild{}, s.forkError(err, "/")
	}
	return fileChild{pid, exit, in, out}, nil
}

// ask starts the child, has send write to it and gives its answer.
func (s *Supervisor) ask(ctx context.Context, send func(io.Writer) error) ([]byte, *guest.Error) {
	child, gerr := s.startFileOp()
	if gerr != nil {
		return nil, gerr
	}
	stop := context.AfterFunc(ctx, func() {
		s.reaper.signal(child.pid, syscall.SIGKILL)
		_ = child.in.SetDeadline(time.Unix(1, 0))
		_ = child.out.SetDeadline(time.Unix(1, 0))
	})
	defer stop()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = send(child.in) // a child that reads less answers why, or dies
		_ = child.in.Close()
	}()
	answer, err := io.ReadAll(io.LimitReader(child.out, maxAnswer))
	closeAll(child.out)
	<-sent
	<-child.exit
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, guest.Errorf(guest.CodeLost, "the file operation's answer cannot be read: %v", err)
	}
	return answer, nil
}

// pipe makes a pipe whose end number ours (0 reads) does not block a thread.
func pipe(ours int) (r, w *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	_ = syscall.SetNonblock(fds[ours], true)
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
