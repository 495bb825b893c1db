package supervisor

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
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
	buf := make([]byte, 4096)
	for pid := range m.pids {
		markTree(strconv.Itoa(pid), buf, 0)
		m.marked <- struct{}{}
	}
}

// A process that has become its user's and is about to run its program is root's
// in /proc until the kernel is done with that, a few instructions after it has
// closed its files and so told of its start. On a busy machine it may be held up
// there. Its children are not waited for: some are root's there for good.
const (
	markTries = 200
	markPause = time.Millisecond
)

func openMark(pid string, wait bool) (fd int, err error) {
	for range markTries {
		fd, err = syscall.Open("/proc/"+pid+"/oom_score_adj", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
		if !wait || !errors.Is(err, syscall.EACCES) || ended(pid) {
			return fd, err
		}
		time.Sleep(markPause)
	}
	return fd, err
}

// ended tells whether a process that is not reaped yet has ended: its files in
// /proc are root's again, for good.
func ended(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return true
	}
	_, state, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	return bytes.HasPrefix(state, []byte("Z")) || bytes.HasPrefix(state, []byte("X"))
}

// maxMarkDepth is far more than a shell can fork in the moment before its mark.
const maxMarkDepth = 16

// markTree marks a process, whose later children inherit the mark, and then
// those it has forked already: on a busy machine the shell may be that fast. A
// child that was orphaned within that moment keeps the guest's own score.
func markTree(pid string, buf []byte, depth int) {
	fd, err := openMark(pid, depth == 0)
	if err != nil {
		return
	}
	_, _ = syscall.Write(fd, []byte(strconv.Itoa(ChildOOMScore)))
	_ = syscall.Close(fd)
	if depth == maxMarkDepth {
		return
	}
	fd, err = syscall.Open("/proc/"+pid+"/task/"+pid+"/children", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	n, _ := syscall.Read(fd, buf)
	_ = syscall.Close(fd)
	for child := range strings.FieldsSeq(string(buf[:max(n, 0)])) {
		markTree(child, buf, depth+1)
	}
}

// mark works on a child that has been started and not been reaped.
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
