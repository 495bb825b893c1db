// Package defaultsession keeps the sessions of calls that name none: one per
// stdio connection, or one per name (--session NAME) that later connections find
// again.
//
// Entry points: New makes a Store, Store.Connection a connection, whose context
// (WithConnection) Store.Session reads; Store.Watch learns of ended sessions from
// the calls. Only cmd imports it.
//
// A session is started on first use, under a call ID that was written down
// before: <data-dir>/stdio-sessions/names/NAME.json or connections/ID.json. As a
// start under the same call ID finds the same session, a crash in between starts
// no second one. A start that takes over 25 s makes the call Unavailable, and the
// next call waits on: a client would not wait for start and call together. A session that has ended is followed by a fresh one at the next
// call; not for a call that was sent before and may have begun in the one that
// ended, and not for calls that only look back (tools.DefaultUse). A lost session
// is kept: its error names the ways on.
//
// Store.Start says whether the session is fresh, for a client that puts a folder
// into it first; one whose filling was cut off stays so until Store.Filled or a call.
//
// The data dir's lock makes this process the only one that writes the files.
package defaultsession
