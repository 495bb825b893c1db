// Package background finds the server of a data dir, starts one in the background
// if there is none, and ends one.
//
// Entry points: Launcher.Ensure, Launcher.Shutdown. Only cmd imports it. Of several
// programs that start a server at once one server is left: the data dir's lock
// decides, the others' exit with ExitInUse, and all connect to the one.
//
// The version rule (ADR 012): a program that is newer than a background server
// ends it and starts its own; sessions go on. An older one uses it, as long as
// they have a control protocol in common. A server that a person started is never
// ended: it is used, or, without a common protocol, the error says to restart it.
// Newer is told by the version (semantic versioning, with git describe's count of
// commits), then by the time of the commit; where neither tells, the running one
// stays.
package background
