package supervisor

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// ChildOOMScore is the oom_score_adj of commands and file operations. PID 1 has
// the container's, normally 0, so the OOM killer takes any of them before it
// takes the guest, which would end the sandbox.
const ChildOOMScore = 500

// oomMarker sets it on new commands. The file belongs to the command's user, and
// the guest has no DAC_OVERRIDE, so one thread has that user's fsuid. It opens
// nothing else. (Raising the guest's own score around the fork, for the child to
// inherit, was tried: under memory pressure the OOM killer came in that window
// and took the guest.)
type oomMarker struct {
	pids   chan int
	marked chan struct{}
}

func startOOMMarker(id *Identity) *oomMarker {
	m := &oomMarker{pids: make(chan int), marked: make(chan struct{})}
	go m.loop(id)
	return m
}

func (m *oomMarker) loop(id *Identity) {
	defer close(m.marked)
	if id != nil {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSGID, uintptr(id.GID), 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(id.UID), 0, 0)
	}
	score := []byte(strconv.Itoa(ChildOOMScore))
	for pid := range m.pids {
		fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
		if err == nil {
			_, _ = syscall.Write(fd, score)
			_ = syscall.Close(fd)
		}
		m.marked <- struct{}{}
	}
}

// mark works on a child that has been started and not been reaped. Descendants
// inherit what it sets; the shell forks none before it has read its command.
func (m *oomMarker) mark(pid int) {
	m.pids <- pid
	<-m.marked
}

func (m *oomMarker) close() {
	close(m.pids)
	<-m.marked
}

// MarkSelf sets ChildOOMScore on this process. A file operation does it before
// it drops its identity; without it the operation works just as well.
func MarkSelf() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(ChildOOMScore)), 0)
}
