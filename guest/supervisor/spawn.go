package supervisor

import (
	"os"
	"syscall"
)

// spawner starts processes. It forks from this small process directly: a shim
// that sets things up and execs again would double the cost of a command.
type spawner struct {
	reaper *reaper
	marker *oomMarker
	nice   *niceThread
}

// spawn describes a process: Files become its descriptors 0, 1, 2, ...
type spawn struct {
	argv  []string
	env   []string
	dir   string
	files []*os.File
	cred  *syscall.Credential
	mark  bool // for the OOM killer, and CommandNice
}

func (s *spawner) start(p spawn) (pid int, exit <-chan syscall.WaitStatus, err error) {
	fds := make([]uintptr, len(p.files))
	for i, f := range p.files {
		fds[i] = f.Fd()
	}
	attr := &syscall.ProcAttr{
		Dir: p.dir, Env: p.env, Files: fds,
		// A session of its own: no controlling terminal, and no signal meant
		// for the guest's process group.
		Sys: &syscall.SysProcAttr{Setsid: true, Credential: p.cred},
	}
	if !p.mark {
		return s.reaper.start(func() (int, error) { return syscall.ForkExec(p.argv[0], p.argv, attr) })
	}
	return s.reaper.start(func() (pid int, err error) {
		s.nice.do(func() { pid, err = syscall.ForkExec(p.argv[0], p.argv, attr) })
		if err == nil {
			s.marker.mark(pid) // it cannot have been reaped: the lock is held
		}
		return pid, err
	})
}
