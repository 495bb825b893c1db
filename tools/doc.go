// Package tools is the MCP surface of mcp-sandbox: the tools' names,
// descriptions, annotations and schemas, the checking of arguments and the
// shaping of results. It knows no Temporal and no Docker: a call goes out
// through a session.Caller.
//
// Entry points: New makes the server that a transport serves; Catalog lists the
// tools as data, without a server; Table renders them for the README. A
// transport puts the caller's owner into the context with WithOwner, and marks
// the context with HTTPContext or StdioContext, so that a client's cancel can be
// told from a lost connection.
//
// A handler never returns a Go error, which a model would hardly see: every
// failure is an error result with a code of package session. Only package cmd
// imports this package; of ours it imports session alone.
package tools
