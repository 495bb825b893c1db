package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setCapabilities sets them in every thread; unix.Capset would in one.
func setCapabilities(header *unix.CapUserHeader, sets *[2]unix.CapUserData) error {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(sets)), 0) //nolint:gosec // as capset(2) wants them
	if errno != 0 {
		return errno
	}
	return nil
}
