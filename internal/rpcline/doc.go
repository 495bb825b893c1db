// Package rpcline frames JSON-RPC messages as MCP's stdio transport does: one
// message a line, UTF-8, no line breaks inside.
//
// Entry points: NewReader gives lines and bounds their size, Parse takes apart
// what decides a message's way, Failure writes an error answer. internal/pipe
// and internal/relay, the two ends of the stream between the stdio command and
// its server, use it; it knows nothing of either. What it does not need to know of
// a message it leaves as the bytes that came.
package rpcline

// MaxBytes is the longest line: as long as the longest body over HTTP.
const MaxBytes = 4 << 20
