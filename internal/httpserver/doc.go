// Package httpserver is the HTTP front of mcp-sandbox: MCP's streamable HTTP at
// /mcp, /healthz, /readyz and /metrics, and everything that stands between the
// network and the tools.
//
// Entry points: CheckListen and Listen for the address, New for a Server, Serve
// and Shutdown; ClientConfig for what a user pastes into a client. Only cmd
// imports it.
//
// A request passes, in this order: recovery from panics, the Host allow-list
// (against DNS rebinding), the Origin allow-list (against web pages), the route,
// the bearer token, the body limit, the screening of MCP messages (message.go),
// mcp-go. Each refuses with a status and the reason. Loopback is no trust
// boundary and earns no exemption. Nothing here says whether a token or an MCP
// session exists for someone else, and no trace header is interpreted: tools
// reads it.
//
// Words: an MCP session is the transport's (Mcp-Session-Id, revisions before
// 2026-07-28) and has nothing to do with a sandbox's session.
package httpserver
