// Package workflows holds the durable side of a session: the Session workflow
// that owns a sandbox, the Snapshot workflow that owns a snapshot, and the Reaper
// workflow that looks for what neither owns any more.
//
// Entry point: Register. Only deterministic code lives here: no clock, no
// randomness, no I/O, no ranging over maps where order shows; everything else
// is an activity. Nobody but cmd and tests imports this package; clients start
// and reach workflows by the names in package session.
package workflows
