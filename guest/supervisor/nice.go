package supervisor

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// CommandNice is the nice value of commands. It counts inside the sandbox alone,
// as the engine gives each sandbox its share of the CPUs: among hundreds of
// processes that are all busy, the guest, its file operations and whoever reaches
// it by exec still get their turn.
const CommandNice = 10

// niceThread runs functions on a thread of that nice value, which children
// inherit. To set it on another user's process, or to take it back from a
// thread, needs a right that the guest has not.
type niceThread struct {
	work  chan func()
	ended chan struct{}
}

func startNiceThread() *niceThread {
	t := &niceThread{work: make(chan func()), ended: make(chan struct{})}
	go t.loop()
	return t
}

func (t *niceThread) loop() {
	defer close(t.ended)
	runtime.LockOSThread()                                  // never unlocked: the thread ends with this goroutine
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, CommandNice) // 0 is this thread
	for f := range t.work {
		f()
	}
}

func (t *niceThread) do(f func()) {
	done := make(chan struct{})
	t.work <- func() { defer close(done); f() }
	<-done
}

func (t *niceThread) close() {
	close(t.work)
	<-t.ended
}
