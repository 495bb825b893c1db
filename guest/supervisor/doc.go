// Package supervisor is the program inside a sandbox: it starts commands and
// follows their whole process trees, keeps their output, performs file
// operations as the sandbox user, and remembers every call in a journal.
//
// New opens the state directory, Serve answers the host on a Unix socket in it,
// Close ends every command and frees everything. Only cmd/sandbox-guest and
// tests import it; the host speaks to it through guest.Client.
//
// As PID 1 it is root with the capabilities SETUID, SETGID, KILL and CHOWN. It
// never opens a file that the sandbox user names: file operations run in a child
// that has dropped its identity first. It promises that a call ID takes effect
// at most once, that its own memory is bounded whatever commands print, and that
// a stopped or timed-out command leaves no process.
//
// The parts, from the outside in:
//
//	server.go            HTTP/2 on the socket, the fence, the peer check
//	once.go              one effect and one answer per call ID
//	run.go command.go    start a command, follow it to its end
//	stream.go logs.go    pipes into logs with byte offsets, caps and eviction
//	stop.go tree.go      signals to a whole tree, and its certain end
//	spawn.go reaper.go   fork, and the one place that waits for children
//	threads.go oom.go    what keeps PID 1 alive when pids or memory are full
//	fileop.go            file operations in a child without privileges
//	copy.go staging.go   trees in and out: contents wait in staging, a child applies
//	cgroup.go usage.go   limits, usage and OOM kills
package supervisor
