package supervisor

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// reaper waits for every child: those the guest started and the orphans that
// the kernel gives to PID 1. Nothing else in the process may wait, so nothing
// here uses os/exec.
type reaper struct {
	mu       sync.Mutex // held over fork and registration, and over wait4
	children map[int]chan syscall.WaitStatus

	// Apart from mu: a fork under memory pressure may take long, and whoever
	// kills the cause of it must not wait for that.
	watchMu sync.Mutex
	changed chan struct{}

	signals chan os.Signal
	stop    chan struct{}
	stopped chan struct{}
}

func startReaper() *reaper {
	r := &reaper{
		children: map[int]chan syscall.WaitStatus{},
		changed:  make(chan struct{}),
		signals:  make(chan os.Signal, 1), // SIGCHLDs fall together, and so may these
		stop:     make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	signal.Notify(r.signals, syscall.SIGCHLD)
	go r.loop()
	return r
}

func (r *reaper) close() {
	signal.Stop(r.signals)
	close(r.stop)
	<-r.stopped
}

func (r *reaper) loop() {
	defer close(r.stopped)
	for {
		r.reap()
		select {
		case <-r.signals:
		case <-r.stop:
			return
		}
	}
}

func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	reaped := false
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
		reaped = true
		if exit := r.children[pid]; exit != nil {
			delete(r.children, pid)
			exit <- status
		}
	}
	if reaped {
		r.watchMu.Lock()
		defer r.watchMu.Unlock()
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

// start forks a child. The channel gets its wait status; it is buffered. The
// lock makes sure that the child is known before anyone waits for it.
func (r *reaper) start(fork func() (int, error)) (pid int, exit <-chan syscall.WaitStatus, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err = fork()
	if err != nil {
		return 0, nil, err
	}
	status := make(chan syscall.WaitStatus, 1)
	r.children[pid] = status
	return pid, status, nil
}

// signal sends sig to a child that has not been waited for, so that the pid
// cannot belong to another process.
func (r *reaper) signal(pid int, sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.children[pid] != nil {
		_ = syscall.Kill(pid, sig)
	}
}

// watch returns a channel that is closed when children have been reaped.
func (r *reaper) watch() <-chan struct{} {
	r.watchMu.Lock()
	defer r.watchMu.Unlock()
	return r.changed
}
