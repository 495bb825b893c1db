package filetree

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Contents gives the entries of a tree and what is in its files.
type Contents interface {
	// Next gives the next entry, io.EOF after the last.
	Next() (Entry, error)
	// Open gives the content of the file that Next gave last. It is asked at
	// most once for each, and the reader is closed.
	Open(e Entry) (io.ReadCloser, error)
}

// ApplyOptions tune Apply.
type ApplyOptions struct {
	// KeepSame leaves a file alone that has the right content already.
	KeepSame bool
	// KeepInside makes no link that may lead out of the tree; it is noted.
	KeepInside bool
	// Note takes what the tree does not have, notes of the manifest included.
	Note func(Entry)
	// Progress is told of files and bytes as they are done.
	Progress func(files int, bytes int64)
}

// Result is what Apply did.
type Result struct {
	// Path is where the tree's root is now, absolute.
	Path string
	// Counts are of what was made; Unchanged files are among them.
	Counts
	Unchanged int
}

// Apply makes a tree at dest, an absolute path, which is read as cp reads it:
//
//   - a folder that is there: the tree goes into it under the header's name, and
//     without a name its content does;
//   - nothing there: dest becomes the tree. With a slash at the end a file goes
//     into that new folder. Missing parents are made (0755).
//   - a file that is there is replaced by a file.
//
// Folders that are there are merged with, files and links replaced; what the
// tree does not have stays. A folder is never replaced by a file or link, nor
// the other way round.
//
// Result says how far it came, also beside an error. Each file and link is there
// as before or as in the tree, whatever happens.
func Apply(ctx context.Context, dest string, h Header, src Contents, opts ApplyOptions) (Result, error) {
	a := &applier{ctx: ctx, src: src, opts: opts}
	if a.opts.Note == nil {
		a.opts.Note = func(Entry) {}
	}
	if a.opts.Progress == nil {
		a.opts.Progress = func(int, int64) {}
	}
	if err := a.check.header(h); err != nil {
		return a.res, err
	}
	err := a.run(dest, h)
	for len(a.open) > 0 { // also after an error: folders were opened up to write to them
		err = errors.Join(err, a.leave())
	}
	if err == nil && !a.check.begun {
		err = fmt.Errorf("%w: no root", ErrManifest)
	}
	return a.res, err
}

type applier struct {
	ctx   context.Context //nolint:containedctx // of one Apply
	src   Contents
	opts  ApplyOptions
	check checker
	res   Result
	open  []folder // that entries go into, the outermost first
}

// folder is one that entries go into. Its mode and time are set when all that
// is in it is done.
type folder struct {
	path string // in the manifest
	root *os.Root
	keep bool // it stays as it is
	made bool // by this copy
	Entry
}

func (a *applier) run(dest string, h Header) error {
	for {
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		e, err := a.src.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = a.check.entry(e)
		}
		if err != nil {
			return err
		}
		if e.Note() {
			a.note(e)
			continue
		}
		if e.Path == "." {
			err = a.root(dest, h, e)
		} else {
			err = a.entry(e)
		}
		if err != nil {
			return err
		}
	}
}

func (a *applier) note(e Entry) {
	a.res.Add(e)
	a.opts.Note(e)
}

// root makes the tree's root.
func (a *applier) root(dest string, h Header, e Entry) error {
	t, err := findTarget(dest, h.Name, e.Type)
	if err != nil {
		return err
	}
	a.res.Path = t.path
	if t.merge {
		root, err := os.OpenRoot(t.path)
		if err != nil {
			return err
		}
		a.open = append(a.open, folder{path: ".", root: root, keep: true, Entry: e})
		a.res.Dirs++
		return nil
	}
	parent, err := os.OpenRoot(filepath.Dir(t.path))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	if e.Type == Link && a.opts.KeepInside {
		return &fs.PathError{Op: "copy", Path: t.path, Err: fmt.Errorf("the source is a link to %q: name that instead", e.Target)}
	}
	return a.make(parent, filepath.Base(t.path), e)
}

func (a *applier) entry(e Entry) error {
	dir, name := ".", string(e.Path)
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, name = name[:i], name[i+1:]
	}
	for a.open[len(a.open)-1].path != dir { // checked: it is on the way
		if err := a.leave(); err != nil {
			return err
		}
	}
	return a.make(a.open[len(a.open)-1].root, name, e)
}

func (a *applier) make(in *os.Root, name string, e Entry) error {
	var err error
	switch e.Type {
	case Dir:
		err = a.enter(in, name, e)
	case Link:
		if a.opts.KeepInside && leaves(string(e.Path), string(e.Target)) {
			a.note(Entry{Path: e.Path, Type: Skipped, Reason: fmt.Sprintf("a link that leads out of the copied tree, to %.200q", e.Target)})
			return nil
		}
		err = a.link(in, name, e)
	default:
		err = a.file(in, name, e)
	}
	if err != nil {
		return located(in, name, err)
	}
	a.res.Add(e)
	if e.Type == File {
		a.opts.Progress(1, 0)
	}
	return nil
}

// located gives an error of a name in a folder its whole path.
func located(in *os.Root, name string, err error) error {
	if err == nil {
		return nil
	}
	path := filepath.Join(in.Name(), name)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
}

// enter makes a folder, or opens one that is there so that it can be written to.
func (a *applier) enter(in *os.Root, name string, e Entry) error {
	made := false
	info, err := in.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = in.Mkdir(name, 0o700); err == nil {
			made = true
			info, err = in.Lstat(name)
		}
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		// Of a copy before, perhaps; leave puts the mode right.
		if err := in.Chmod(name, info.Mode().Perm()|0o700); err != nil {
			return err
		}
	}
	root, err := in.OpenRoot(name)
	if err != nil {
		return err
	}
	if now, err := root.Stat("."); err != nil || !os.SameFile(info, now) {
		_ = root.Close()
		return &fs.PathError{Op: "open", Path: name, Err: errors.New("it was replaced at this moment")}
	}
	a.open = append(a.open, folder{path: string(e.Path), root: root, made: made, Entry: e})
	return nil
}

// leave puts the innermost folder's mode and time right and closes it.
func (a *applier) leave() error {
	f := a.open[len(a.open)-1]
	a.open = a.open[:len(a.open)-1]
	defer func() { _ = f.root.Close() }()
	if f.keep {
		return nil
	}
	when := time.Unix(0, f.MTime)
	err := f.root.Chtimes(".", when, when)
	if err == nil {
		err = f.root.Chmod(".", fs.FileMode(f.Mode))
	}
	if !f.made && errors.Is(err, fs.ErrPermission) {
		return nil // another user's, who may let us write to it all the same
	}
	return located(f.root, "", err)
}

// link makes a symbolic link, in the place of a link or file that is there.
func (a *applier) link(in *os.Root, name string, e Entry) error {
	if now, err := in.Readlink(name); err == nil && now == string(e.Target) {
		return nil
	}
	temp := tempName()
	if err := in.Symlink(string(e.Target), temp); err != nil {
		return err
	}
	if err := replace(in, temp, name); err != nil {
		_ = in.Remove(temp)
		return err
	}
	return nil
}

// replace puts what temp names in the place of name.
func replace(in *os.Root, temp, name string) error {
	err := in.Rename(temp, name)
	if err == nil {
		return nil
	}
	if info, serr := in.Lstat(name); serr == nil && info.IsDir() { // systems differ in what they call it
		return &fs.PathError{Op: "rename", Path: name, Err: syscall.EISDIR}
	}
	return err
}

func tempName() string { return ".mcp-sandbox-" + strings.ToLower(rand.Text()[:16]) }
