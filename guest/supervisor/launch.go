package supervisor

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// A script goes on the command line up to maxArg: `bash -c TEXT` is what people
// know, in $0, in line numbers and with stdin untouched. The kernel takes no
// argument over 128 KiB, so a longer one goes into a memfd that the shell
// sources; $0 and the rest stay the same. The shell has read the file, or holds
// a descriptor of its own, when its first line closes the inherited one.
const (
	maxArg     = 100 << 10
	sourceFD   = ". /proc/self/fd/3"
	closeFD    = "exec 3<&-; "
	defaultEnv = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

var shells = []string{"/bin/bash", "/bin/sh"}

// forced is the environment of a command that nobody watches: no prompts, no
// pagers, no editors. The caller's env may still override it.
var forced = []string{
	"TERM=dumb", "GIT_TERMINAL_PROMPT=0", "DEBIAN_FRONTEND=noninteractive",
	"PAGER=cat", "GIT_PAGER=cat", "GIT_EDITOR=true", "EDITOR=true", "VISUAL=true",
}

// plan is a command that is known to be startable, as far as can be told.
type plan struct {
	argv   []string
	script string // for the memfd, when argv has not got it
	env    []string
	dir    string
	stdin  []byte
	keep   bool
}

func (s *Supervisor) plan(req guest.RunRequest) (plan, *guest.Error) {
	p := plan{dir: s.opts.WorkDir, stdin: req.Stdin, keep: req.KeepStdin}
	if req.Cwd != "" {
		p.dir = req.Cwd
		if !filepath.IsAbs(p.dir) {
			// Not cleaned: the kernel resolves ".." after links, as cd -P does.
			p.dir = s.opts.WorkDir + "/" + p.dir
		}
	}
	if strings.ContainsRune(req.Command, 0) || strings.ContainsRune(p.dir, 0) {
		return p, guest.Errorf(guest.CodeInvalid, "the command or cwd holds a NUL byte")
	}
	if gerr := checkDir(p.dir); gerr != nil {
		return p, gerr
	}
	i := slices.IndexFunc(shells, func(sh string) bool { return unix.Access(sh, unix.X_OK) == nil })
	if i < 0 {
		return p, guest.Errorf(guest.CodePrecondition, "the sandbox has no /bin/bash and no /bin/sh")
	}
	p.argv = []string{shells[i], "-c", req.Command}
	if len(req.Command) > maxArg {
		p.argv[2], p.script = sourceFD, closeFD+req.Command
	}
	var gerr *guest.Error
	p.env, gerr = s.environ(req.Env)
	return p, gerr
}

// checkDir looks with the guest's eyes: what it may not see, the fork decides.
func checkDir(dir string) *guest.Error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return guest.Errorf(guest.CodeInvalid, "cwd %s is not a directory", dir)
	case errors.Is(err, os.ErrNotExist):
		return guest.Errorf(guest.CodeNotFound, "cwd %s does not exist: make it, or pass another cwd (\"/\" always exists)", dir)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG):
		return guest.Errorf(guest.CodeInvalid, "cwd %s: %v", dir, errors.Unwrap(err))
	}
	return nil
}

// environ merges: the image's, then what a command without a terminal needs,
// then the request's.
func (s *Supervisor) environ(env map[string]string) ([]string, *guest.Error) {
	merged := map[string]string{}
	put := func(list ...string) {
		for _, pair := range list {
			if k, v, ok := strings.Cut(pair, "="); ok && k != "" {
				merged[k] = v
			}
		}
	}
	put(defaultEnv, "LANG=C.UTF-8")
	put(s.opts.Env...)
	put(forced...)
	put("HOME=" + s.opts.Home)
	for k, v := range env {
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0):
			return nil, guest.Errorf(guest.CodeInvalid, "env %.60q is no valid variable", k)
		case len(k)+len(v) > maxArg:
			return nil, guest.Errorf(guest.CodeInvalid, "env %.60q has %d bytes, at most %d are possible: use a file", k, len(v), maxArg)
		}
		merged[k] = v
	}
	list := make([]string, 0, len(merged))
	for _, k := range slices.Sorted(maps.Keys(merged)) {
		list = append(list, k+"="+merged[k])
	}
	return list, nil
}

// launch starts the command's first process, or records that it could not.
func (s *Supervisor) launch(c *command, p plan) {
	defer close(c.started)
	c.oom = s.cgroup.oomKills()
	if gerr := s.fork(c, p); gerr != nil {
		c.startErr = gerr
		s.endRunning()
		if err := s.journal.End(c.id, runOutcome{Error: gerr}); err != nil {
			s.opts.Log.Error("outcome not recorded", "call_id", c.id, "error", err)
		}
		c.mu.Lock()
		c.state.Status = guest.StatusExited
		c.mu.Unlock()
		close(c.done)
		return
	}
	s.work.Go(c.out.pump)
	s.work.Go(c.err.pump)
	s.work.Go(func() { s.follow(c) })
	if c.in != nil {
		_ = c.in.write(p.stdin, !p.keep) // cannot be refused: it is new and MaxInline fits
	}
}

// fork makes the pipes and the process. The child's ends are closed here in any
// case; ours only when there is no child.
func (s *Supervisor) fork(c *command, p plan) (gerr *guest.Error) {
	var ends []*os.File
	defer func() {
		for _, f := range ends {
			_ = f.Close()
		}
	}()
	add := func(f *os.File, err error) bool {
		if err != nil {
			gerr = s.forkError(err, p.dir)
			return false
		}
		ends = append(ends, f)
		return true
	}
	in, err := s.openStdin(c, p)
	if !add(in, err) {
		return gerr
	}
	for _, st := range []struct {
		stream **stream
		name   guest.StreamName
	}{{&c.out, guest.Stdout}, {&c.err, guest.Stderr}} {
		opened, f, err := newStream(s.logs, s.logs.path(c.seq, st.name))
		*st.stream = opened
		if !add(f, err) {
			c.discard()
			return gerr
		}
		s.give(f)
	}
	if p.script != "" {
		if !add(memfd(p.script)) {
			c.discard()
			return gerr
		}
	}
	pid, exit, err := s.spawner.start(spawn{argv: p.argv, env: p.env, dir: p.dir, files: ends, cred: s.credential(c.tag), mark: true})
	if err != nil {
		c.discard()
		return s.forkError(err, p.dir)
	}
	s.mu.Lock()
	c.child = &child{pid: pid, exit: exit}
	s.mu.Unlock()
	return nil
}

func (s *Supervisor) openStdin(c *command, p plan) (*os.File, error) {
	if len(p.stdin) == 0 && !p.keep {
		return os.Open(os.DevNull)
	}
	in, f, err := newStdin()
	c.in = in
	s.give(f)
	return f, err
}

// give makes the end of a pipe the sandbox user's, who could not open it by name
// otherwise: `echo x >/dev/stderr`. Without that, commands still have it open.
func (s *Supervisor) give(end *os.File) {
	if id := s.opts.Identity; id != nil && end != nil {
		_ = end.Chown(int(id.UID), int(id.GID))
	}
}

// discard closes our ends of the pipes of a command that did not start.
func (c *command) discard() {
	if c.in != nil {
		c.in.close()
	}
	for _, st := range []*stream{c.out, c.err} {
		if st != nil {
			_ = st.pipe.Close()
			st.closed = true
		}
	}
}

// credential is whom a command runs as. It has two groups: the sandbox user's
// and its tag.
func (s *Supervisor) credential(tag uint32) *syscall.Credential {
	if !s.tracker.byGroup {
		return nil
	}
	cred := &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()), Groups: []uint32{tag}} //nolint:gosec // IDs fit
	if id := s.opts.Identity; id != nil {
		cred.Uid, cred.Gid = id.UID, id.GID
	}
	return cred
}

func memfd(content string) (*os.File, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), "script")
	if _, err := f.WriteString(content); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write memfd: %w", err)
	}
	return f, nil
}

// forkError says why no process was started. Nothing has happened then.
func (s *Supervisor) forkError(err error, dir string) *guest.Error {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		limit := s.cgroup.usage().PIDsLimit
		return guest.Errorf(guest.CodeExhausted,
			"the sandbox has reached its pids limit (%d processes): nothing was started; stop a command", limit)
	case errors.Is(err, syscall.ENOMEM):
		limit := s.cgroup.usage().MemoryLimitBytes
		return guest.Errorf(guest.CodeExhausted,
			"the sandbox has reached its memory limit (%d MiB): nothing was started; stop a command", limit>>20)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return guest.Errorf(guest.CodeExhausted, "too many open files: nothing was started; stop a command")
	case errors.Is(err, syscall.E2BIG):
		return guest.Errorf(guest.CodeInvalid, "command and env are too large together: put some of it into a file")
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return guest.Errorf(guest.CodeNotFound, "cwd %s does not exist: make it, or pass another cwd", dir)
	case errors.Is(err, syscall.EACCES):
		return guest.Errorf(guest.CodePermission, "cwd %s is closed to the sandbox user: pass another cwd", dir)
	}
	return guest.Errorf(guest.CodeInternal, "start the shell: %v", err)
}
