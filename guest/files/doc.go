// Package files reads, writes and edits files inside the sandbox with the
// identity of the process that calls it.
//
// The supervisor starts a child that drops to the sandbox user (setgroups,
// setgid, setuid) and then calls Serve for one request: a link that a command
// planted leads nowhere the user could not go itself, raced or not. The package
// never changes identity and does not check paths: the kernel does both.
//
// Entry points are Serve (one JSON request in, one JSON answer out) and Read,
// Write and Edit. Only the guest's programs and their tests import it. Every
// error that comes back is a *guest.Error whose message tells an agent what to
// do next.
//
// What it promises: a write or an edit shows the old content or the new one,
// never a mix (a temporary file named .mcp-sandbox-* beside the target, then
// rename(2)); a failure leaves no temporary file and no new directory; memory
// and the bytes read are bounded whatever the size of a file.
//
// What it does not: it does not fsync, since only a power loss could undo the
// rename and the project does not promise to survive that; a rename gives the
// file a new inode, so other hard links keep the old content, and ACLs and
// extended attributes are not carried over; a process killed by SIGKILL in
// mid-write leaves its temporary file behind. It is for Linux alone, as the
// guest is; elsewhere the package is empty.
package files
