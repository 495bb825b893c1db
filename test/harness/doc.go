// Package harness runs the built mcp-sandbox binary for end-to-end tests and
// speaks MCP to it as a client would.
//
// Entry points: Start for a server with a data dir and an installation of its
// own, Server.Client for a caller, Docker for a look at the engine. A missing
// engine or binary skips the test, or fails it when MCP_SANDBOX_REQUIRE=docker.
// Everything a test made is removed at its end, whatever happened.
package harness
