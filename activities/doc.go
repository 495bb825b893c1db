// Package activities holds the verbs of a session: what a workflow asks a host
// to do. Each is idempotent by call ID and incarnation, heartbeats while it
// waits, and reports an outcome it cannot know as such.
//
// Entry points: Placement (any worker, shared queue), Host (the workers of one
// host's queue), and the Backend interface that activities/docker implements.
// Workflows use the name constants and the argument types alone.
package activities
