package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tracker finds the processes of a command's tree. Each command gets a
// supplementary group of its own, its tag: every descendant inherits it, over
// setsid and double forks too, and none can shed it without CAP_SETGID.
//
// Without the right to set groups (an ordinary user runs a test) it falls back
// to the session ID, which setsid escapes.
type tracker struct {
	base, size uint32 // tags are base to base+size-1
	byGroup    bool
	reaper     *reaper

	mu  sync.Mutex // one scan at a time: it bounds the threads in use
	buf []byte
}

// Tags of PID 1. They need no file and no name, only a mapped group ID.
const (
	tagBase = 1 << 20
	tagSize = 1 << 20
	// smallTags is used where only 65,536 IDs are mapped (rootless engines).
	smallTags = 40_000
)

func newTracker(r *reaper) *tracker {
	t := &tracker{reaper: r, byGroup: os.Geteuid() == 0, buf: make([]byte, 8<<10)}
	t.base, t.size = tagBase, tagSize
	switch {
	case os.Getpid() != 1:
		// /proc shows foreign processes too, other sandboxes' among them.
		t.base, t.size = 1<<24+rand.Uint32N(1<<29), 1<<16 //nolint:gosec // no secret
	case !mapped(tagBase + tagSize - 1):
		t.base, t.size = 65_535-smallTags, smallTags
	}
	if !mapped(t.base + t.size - 1) {
		t.byGroup = false
	}
	return t
}

// mapped tells whether a group ID exists in this user namespace.
func mapped(gid uint32) bool {
	data, err := os.ReadFile("/proc/self/gid_map")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		var inside, outside, count uint64
		if n, _ := fmt.Sscan(line, &inside, &outside, &count); n == 3 &&
			uint64(gid) >= inside && uint64(gid) < inside+count {
			return true
		}
	}
	return false
}

// tree selects processes: one command's, or (tag 0) those of all commands.
type tree struct {
	tag    uint32
	leader int // its session ID too
}

// tag is the group of the seq-th command. After size commands they come round
// again; by then the old holder is a matter of the far past.
func (t *tracker) tag(seq uint64) uint32 { return t.base + uint32(seq%uint64(t.size)) } //nolint:gosec // below size

// members lists the living processes of a tree. Zombies are not among them.
func (t *tracker) members(tr tree) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1)
	self := os.Getpid()
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err == nil && pid != self && t.belongs(name, tr) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (t *tracker) belongs(pid string, tr tree) bool {
	if !t.byGroup {
		return t.inSession(pid, tr.leader)
	}
	data := t.read("/proc/" + pid + "/status")
	return matchStatus(data, func(gid uint32) bool {
		if tr.tag == 0 {
			return gid >= t.base && gid < t.base+t.size
		}
		return gid == tr.tag
	})
}

// matchStatus tells whether a /proc/*/status is of a living process that has a
// group for which match holds.
func matchStatus(status []byte, match func(uint32) bool) bool {
	if state := field(status, "\nState:"); len(state) == 0 || state[0] == 'Z' || state[0] == 'X' {
		return false
	}
	for group := range bytes.FieldsSeq(field(status, "\nGroups:")) {
		if gid, err := strconv.ParseUint(string(group), 10, 32); err == nil && match(uint32(gid)) {
			return true
		}
	}
	return false
}

func field(status []byte, name string) []byte {
	_, rest, _ := bytes.Cut(status, []byte(name))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return bytes.TrimSpace(line)
}

// inSession reads /proc/*/stat: pid (comm) state ppid pgrp session ...
func (t *tracker) inSession(pid string, leader int) bool {
	data := t.read("/proc/" + pid + "/stat")
	i := bytes.LastIndexByte(data, ')')
	if i < 0 {
		return false
	}
	fields := bytes.Fields(data[i+1:])
	if len(fields) < 4 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return false
	}
	return string(fields[3]) == strconv.Itoa(leader)
}

func (t *tracker) read(path string) []byte {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = syscall.Close(fd) }()
	n, err := syscall.Read(fd, t.buf)
	if err != nil {
		return nil
	}
	return t.buf[:n]
}

// signal sends sig to every member there is now and returns how many.
func (t *tracker) signal(tr tree, sig syscall.Signal) int {
	pids := t.members(tr)
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
	return len(pids)
}

// terminate asks a tree to end, and kills what is left of it after grace. It
// returns when nothing is left, or ctx ends.
func (t *tracker) terminate(ctx context.Context, tr tree, grace time.Duration) {
	t.signal(tr, syscall.SIGTERM)
	t.signal(tr, syscall.SIGCONT) // a stopped process takes no TERM
	deadline := time.Now().Add(grace)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		reaped := t.reaper.watch()
		if len(t.members(tr)) == 0 {
			return
		}
		t.pause(ctx, reaped, min(20*time.Millisecond, time.Until(deadline)))
	}
	t.destroy(ctx, tr)
}

// destroy kills a tree. A fork may always escape a single pass, so it freezes
// the tree first, until a pass finds no newcomer, then kills what stands still,
// and does so again until nothing is left. It needs no fork itself, so it works
// in a full pids cgroup.
func (t *tracker) destroy(ctx context.Context, tr tree) {
	for wait := 2 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 100*time.Millisecond) {
		reaped := t.reaper.watch()
		t.freeze(tr)
		if t.signal(tr, syscall.SIGKILL) == 0 {
			return
		}
		t.pause(ctx, reaped, wait)
	}
}

func (t *tracker) freeze(tr tree) {
	stopped := map[int]bool{}
	for range 50 { // a pid may come again; then the kill gets it
		found := false
		for _, pid := range t.members(tr) {
			if !stopped[pid] {
				stopped[pid], found = true, true
				_ = syscall.Kill(pid, syscall.SIGSTOP)
			}
		}
		if !found {
			return
		}
	}
}

func (t *tracker) pause(ctx context.Context, reaped <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-reaped:
	case <-timer.C:
	case <-ctx.Done():
	}
}
