// Package temporaldev runs Temporal inside the mcp-sandbox process, so that
// nobody needs a cluster to get durable sessions: the four Temporal services on
// loopback over one SQLite file, and Temporal's web UI.
//
// Entry points: [Start] gives a [Server], [StartUI] the web UI that looks at it,
// [WriteProfile] the file by which other programs find it. Only cmd may import
// this package; everyone else is handed a client.
//
// Loopback is no trust boundary, so each way in asks for something:
//
//   - the frontend asks for the bearer secret in <data dir>/temporal.secret;
//   - the ports behind it (history, matching, internal frontend) speak mutual TLS
//     with a key that never leaves the process;
//   - the UI has no port of its own, and [UI.Handler] asks for the caller's token.
//
// In the data dir it owns temporal.db (with -wal and -shm) and temporal.secret.
// Two servers on one data dir are not prevented here; the caller holds a lock.
//
// Durability: SQLite runs with WAL and synchronous=NORMAL. What was acknowledged
// survives the death of the process. A power loss may cost the last writes, never
// the database.
//
// It reads no environment and prints nothing: logs go to the logger it is given.
package temporaldev
