package supervisor

import (
	"runtime"
	"sync"
)

// spareThreads is how many OS threads SpareThreads makes. The guest blocks in
// the kernel in few places at a time (one fork, one scan of /proc, diskSlots of
// log and file I/O), so this is ample.
const spareThreads = 24

// SpareThreads makes OS threads ahead of need. The Go runtime dies when it
// wants a thread and the pids cgroup is full, and it keeps idle threads for
// ever: threads made now are there then.
func SpareThreads() {
	var ready, done sync.WaitGroup
	ready.Add(spareThreads)
	done.Add(spareThreads)
	for range spareThreads {
		go func() {
			defer done.Done()
			runtime.LockOSThread() // forces a thread of its own
			ready.Done()
			ready.Wait()
			runtime.UnlockOSThread() // lets it live on, idle
		}()
	}
	done.Wait()
}

// diskSlots bounds how many threads wait for the disk at a time.
var diskSlots = make(chan struct{}, 8)

func onDisk(f func()) {
	diskSlots <- struct{}{}
	defer func() { <-diskSlots }()
	f()
}
