// Package fake is an activities.Backend for tests that need no engine: a sandbox
// is a folder, and a process of the test's own binary that runs the real
// guest/supervisor. So it cannot drift from what sandboxes do; backendtest runs
// against it as against Docker.
//
// It isolates nothing: commands run as the user who runs the tests, see the
// host's files, processes and network, and no limit holds them. Nor are they
// paused for a snapshot. Never use it for anything but tests.
//
// Entry points: New, and Crash, Remove and FailNext to do harm. Importing the
// package is enough for the test binary to serve as a guest when it is started
// as one: see guest.go.
package fake
