// Package replay drives sessions through everything they do, over the embedded
// Temporal with package session's client, on sandboxes of activities/fake. It
// needs no engine.
//
// With -record its histories become workflows/testdata/histories, which package
// workflows replays in its tests.
package replay
