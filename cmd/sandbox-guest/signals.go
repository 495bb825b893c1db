//go:build linux

package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Signals that C libraries use for their threads. Go's runtime leaves them as it
// finds them, so that what ignores them above us (an engine started by such a
// program) would have them ignored in every command.
const (
	firstThreadSignal = 32
	lastThreadSignal  = 34
)

// resetThreadSignals gives those signals their default action. Nothing in this
// process uses them.
func resetThreadSignals() {
	var usual struct { // struct sigaction of the kernel, all zero: SIG_DFL
		handler, flags, restorer uintptr
		mask                     uint64
	}
	for sig := uintptr(firstThreadSignal); sig <= lastThreadSignal; sig++ {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&usual)), 0, unsafe.Sizeof(usual.mask), 0, 0) //nolint:gosec // a call that takes a pointer
	}
}
