// Package pipe serves MCP on a stream: one JSON-RPC message a line, as MCP's
// stdio transport has it, for any number of connections of one server. mcp-go's
// own StdioServer is for one connection a process: all of them would share one
// MCP session (ADR 012).
//
// Entry point: Serve, for one connection. Only cmd imports it; the other end is
// internal/relay. Requests are served side by side, and answered under the ID as
// it was written. A request ends early for one of three causes, which package
// tools tells apart: notifications/cancelled (tools.ErrClientCancelled), the end
// of the connection (tools.ErrDisconnected), the end of the server
// (tools.ErrShuttingDown). After the last two nothing more is answered: the other
// end sends again, under the same call ID, what was not.
package pipe
