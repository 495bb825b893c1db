// Package relay is the stdio command's part in the stream between an MCP client
// and a server: it carries JSON-RPC lines from stdin to the server and back to
// stdout, and outlives the server.
//
// Entry point: Run. Only cmd imports it; the other end is internal/pipe. What a
// client sees:
//
//   - Every line of Out is one JSON-RPC message.
//   - When the connection breaks, and a request has no answer or another comes, a
//     new one is made. The client's initialize is replayed on it (its answer is
//     swallowed), then the unanswered requests are sent again. Every tools/call
//     carries a call ID, stamped where it has none, so that it has its effect once.
//   - The server learns how long a tools/call was on its way, which is so much less
//     of the client's patience.
//   - After a minute without a server every unanswered request gets an error; the
//     next request begins anew.
//
// Messages are otherwise passed on as they are: of those that get a call ID too,
// numbers keep their digits and unknown fields stay.
package relay
