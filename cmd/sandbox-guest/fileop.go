package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcp-sandbox/mcp-sandbox/guest/files"
	"github.com/mcp-sandbox/mcp-sandbox/guest/supervisor"
)

// runFileOp becomes the sandbox user for good, then serves one operation on
// stdio. It opens nothing of the sandbox's before that.
func runFileOp(args []string) error {
	set := flag.NewFlagSet("file-op", flag.ContinueOnError)
	uid := set.Int("uid", 1000, "user ID to become")
	gid := set.Int("gid", 1000, "group ID to become")
	if err := set.Parse(args); err != nil {
		return err
	}
	supervisor.MarkSelf()
	if err := drop(*uid, *gid); err != nil {
		return err
	}
	return files.Serve(os.Stdin, os.Stdout)
}

// drop changes all threads (package syscall does), keeps no group but gid, and
// makes sure that it holds. Commands of the same user must not trace what
// follows or look into its descriptors.
func drop(uid, gid int) error {
	err := errors.Join(syscall.Setgroups([]int{gid}), syscall.Setgid(gid), syscall.Setuid(uid))
	if err != nil {
		return fmt.Errorf("become the sandbox user: %w", err)
	}
	if syscall.Getuid() != uid || syscall.Geteuid() != uid || syscall.Getegid() != gid || syscall.Setuid(0) == nil {
		return errors.New("become the sandbox user: the identity did not change")
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("become undumpable: %w", err)
	}
	return nil
}
