package filetree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Sink takes what Scan finds.
type Sink interface {
	// Content keeps what r gives until its end and tells its digest and size. It
	// is called again where a file changed while it was read: the last counts.
	Content(r io.Reader) (digest string, size int64, err error)
	// Entry takes an entry; a file's comes after its content.
	Entry(e Entry) error
}

// ScanOptions tune Scan.
type ScanOptions struct {
	// OneFileSystem leaves out folders where another file system is mounted.
	OneFileSystem bool
}

// attempts is how often a file is read that changes meanwhile.
const attempts = 3

// Source is what a path on a command line means as the source of a copy.
type Source struct {
	// Path is what to scan, Name what it is called: the header's.
	Path string
	Name Text
}

// FindSource looks at a path. As for cp, a link is what is copied itself unless
// a slash follows, and a path that ends with "/." means a folder's content.
func FindSource(path string) (Source, error) {
	slash := strings.HasSuffix(path, "/")
	content := path == "." || strings.HasSuffix(path, "/.")
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && !slash && !content {
		return Source{filepath.Clean(path), Text(filepath.Base(path))}, nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Source{}, err
	}
	if info, err = os.Stat(real); err != nil {
		return Source{}, err
	}
	if (slash || content) && !info.IsDir() {
		return Source{}, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	if real, err = filepath.Abs(real); err != nil {
		return Source{}, err
	}
	s := Source{Path: real, Name: Text(filepath.Base(filepath.Clean(path)))}
	if s.Name == ".." || s.Name == "/" { // it has its own name
		s.Name = Text(filepath.Base(real))
	}
	if content || s.Name == "/" {
		s.Name = ""
	}
	return s, nil
}

// Scan walks what is at path and hands it to the sink, in the order of a
// manifest. Errors are those of the sink, of ctx, of a limit (ErrManifest), and
// of the root itself; what fails below becomes a note.
func Scan(ctx context.Context, path string, sink Sink, opts ScanOptions) error {
	s := &scanner{ctx: ctx, sink: sink, opts: opts}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		root, err := os.OpenRoot(path)
		if err != nil {
			return err
		}
		defer func() { _ = root.Close() }()
		s.device, _ = device(info)
		return s.dir(root, ".", info, 0)
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	s.alone = path
	return s.other(root, filepath.Base(path), ".", info)
}

type scanner struct {
	ctx    context.Context //nolint:containedctx // of one Scan
	sink   Sink
	opts   ScanOptions
	device uint64
	count  int
	alone  string // the root's path where it is no folder: what fails is an error
}

func (s *scanner) emit(e Entry) error {
	if s.count++; s.count > MaxEntries {
		return fmt.Errorf("%w: more than %d files and folders: copy its folders one by one, or an archive of it", ErrManifest, MaxEntries)
	}
	return s.sink.Entry(e)
}

func (s *scanner) note(kind Type, path, reason string) error {
	if s.alone != "" && kind != Altered {
		return &fs.PathError{Op: "copy", Path: s.alone, Err: errors.New(reason)}
	}
	return s.emit(Entry{Path: Text(path), Type: kind, Reason: reason})
}

// dir emits an open folder and all that is in it.
func (s *scanner) dir(root *os.Root, path string, info fs.FileInfo, depth int) error {
	if err := s.ctx.Err(); err != nil {
		return context.Cause(s.ctx)
	}
	if depth >= MaxDepth {
		return fmt.Errorf("%w: %.100q...: more than %d folders in each other", ErrManifest, path, MaxDepth)
	}
	names, err := list(root)
	if err != nil && depth == 0 {
		return err
	}
	if err != nil {
		return s.note(Unread, path, "its list cannot be read: "+reason(err))
	}
	if err := s.emit(Entry{Path: Text(path), Type: Dir, Mode: perm(info), MTime: mtime(info)}); err != nil {
		return err
	}
	if err := s.bits(path, info); err != nil {
		return err
	}
	for _, name := range names {
		if err := s.child(root, name, join(path, name), depth); err != nil {
			return err
		}
	}
	return nil
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// list gives the names in a folder, sorted by their bytes.
func list(root *os.Root) ([]string, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var names []string
	for {
		more, err := f.Readdirnames(1000)
		names = append(names, more...)
		if errors.Is(err, io.EOF) || len(names) > MaxEntries { // emit says what is wrong
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *scanner) child(root *os.Root, name, path string, depth int) error {
	if err := s.ctx.Err(); err != nil {
		return context.Cause(s.ctx)
	}
	if len(path) > MaxPath {
		return s.note(Unread, path[:MaxPath], fmt.Sprintf("its path is longer than %d bytes", MaxPath))
	}
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since it was listed
	}
	if err != nil {
		return s.note(Unread, path, reason(err))
	}
	if !info.IsDir() {
		return s.other(root, name, path, info)
	}
	if dev, ok := device(info); s.opts.OneFileSystem && ok && dev != s.device {
		return s.note(Skipped, path, "another file system is mounted there: copy it by its own path")
	}
	sub, err := root.OpenRoot(name)
	if err != nil {
		return s.note(Unread, path, "it cannot be opened: "+reason(err))
	}
	defer func() { _ = sub.Close() }()
	if now, err := sub.Stat("."); err != nil || !os.SameFile(info, now) {
		return s.note(Unread, path, "it was replaced while it was read")
	}
	return s.dir(sub, path, info, depth+1)
}

// other emits what is no folder.
func (s *scanner) other(root *os.Root, name, path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return s.file(root, name, path, info)
	case mode&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			return s.note(Unread, path, reason(err))
		}
		return s.emit(Entry{Path: Text(path), Type: Link, Target: Text(target)})
	default:
		return s.note(Skipped, path, kindOf(mode))
	}
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "neither file, folder nor link"
}

// file reads a regular file, again if it changes meanwhile.
func (s *scanner) file(root *os.Root, name, path string, was fs.FileInfo) error {
	for range attempts {
		e, ok, err := s.read(root, name, path, was)
		if err != nil {
			return err
		}
		if ok {
			if e.Note() {
				return s.note(e.Type, path, e.Reason)
			}
			if err := s.emit(e); err != nil {
				return err
			}
			return s.bits(path, was)
		}
		if was, err = root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return s.note(Unread, path, reason(err))
		}
		if !was.Mode().IsRegular() {
			return s.note(Unread, path, "it was replaced while it was read")
		}
	}
	return s.note(Unread, path, "it changes while it is read: copy it when nothing writes to it")
}

// read reads a file once. ok is false when it changed meanwhile; an entry that
// is a note says why it cannot be read.
func (s *scanner) read(root *os.Root, name, path string, was fs.FileInfo) (e Entry, ok bool, err error) {
	unread := func(err error) (Entry, bool, error) {
		if s.alone != "" {
			return Entry{}, false, located(root, name, err)
		}
		return Entry{Type: Unread, Reason: reason(err)}, true, nil
	}
	// Without O_NONBLOCK a FIFO in its place would block; no link is followed.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return unread(err)
	}
	defer func() { _ = f.Close() }()
	began, err := f.Stat()
	if err != nil {
		return unread(err)
	}
	if !os.SameFile(was, began) || !began.Mode().IsRegular() {
		return Entry{}, false, nil
	}
	// A file that grows without an end must end even so.
	in := &watched{ctx: s.ctx, r: io.LimitReader(f, began.Size()+1)}
	digest, size, err := s.sink.Content(in)
	switch {
	case in.err != nil && s.ctx.Err() != nil:
		return Entry{}, false, context.Cause(s.ctx)
	case in.err != nil:
		return unread(in.err)
	case err != nil:
		return Entry{}, false, err
	}
	ended, err := f.Stat()
	if err != nil {
		return unread(err)
	}
	if size != began.Size() || ended.Size() != began.Size() || !ended.ModTime().Equal(began.ModTime()) {
		return Entry{}, false, nil
	}
	return Entry{Path: Text(path), Type: File, Mode: perm(ended), MTime: mtime(ended), Size: size, SHA256: digest}, true, nil
}

// watched tells errors of reading apart from those of the sink.
type watched struct {
	ctx context.Context //nolint:containedctx // of one Scan
	r   io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	if w.err = w.ctx.Err(); w.err != nil {
		return 0, w.err
	}
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// bits notes what of a mode is not kept.
func (s *scanner) bits(path string, info fs.FileInfo) error {
	var lost []string
	for _, b := range []struct {
		bit  fs.FileMode
		name string
	}{{fs.ModeSetuid, "setuid"}, {fs.ModeSetgid, "setgid"}, {fs.ModeSticky, "sticky"}} {
		if info.Mode()&b.bit != 0 {
			lost = append(lost, b.name)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return s.note(Altered, path, "without its "+strings.Join(lost, " and ")+" bit")
}

func perm(info fs.FileInfo) uint32 { return uint32(info.Mode().Perm()) }

func mtime(info fs.FileInfo) int64 { return nanoseconds(info.ModTime()) }

// nanoseconds since 1970, 0 for years that do not fit.
func nanoseconds(t time.Time) int64 {
	if y := t.Year(); y < 1678 || y > 2261 {
		return 0
	}
	return t.UnixNano()
}

func device(info fs.FileInfo) (uint64, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(st.Dev), true //nolint:gosec,unconvert,nolintlint // its type differs between systems
}

// reason is an error without the path, which the reader sees beside it.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	text := err.Error()
	return text[:min(len(text), maxReason/2)]
}
