package main

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// setup are the capabilities that a container with a network has for its start
// alone: to set the packet filter, and to give up both for good.
var setup = []uint{unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}

// dropSetup gives up the setup capabilities in every thread and in every set,
// the bounding set included. Where they were not given, it does nothing.
func dropSetup() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // capabilities 0 to 31, 32 to 63
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	var drop uint32
	for _, c := range setup {
		drop |= 1 << c
	}
	if (sets[0].Permitted|sets[0].Inheritable)&drop == 0 {
		return nil
	}
	if sets[0].Effective&(1<<unix.CAP_SETPCAP) != 0 {
		for _, c := range setup {
			if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0); errno != 0 {
				return fmt.Errorf("give up capability %d: %w", c, errno)
			}
		}
	}
	sets[0].Permitted &^= drop
	sets[0].Effective &^= drop
	sets[0].Inheritable &^= drop
	if err := setCapabilities(&header, &sets); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return nil
}
