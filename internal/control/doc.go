// Package control is how programs on the same machine, of the same user, speak
// to the server of a data dir: HTTP/1.1 on the Unix socket <data-dir>/server.sock.
//
//	GET  /v1/hello          who is there (Hello)
//	POST /v1/shutdown       end the server; its sessions go on
//	POST /v1/stdio          Attach; becomes a stream of JSON-RPC lines (101 Switching Protocols)
//	POST /v1/stdio-session  Attach; starts the connection's default session (SessionReply)
//
// Entry points: Listen and NewServer for a server, NewClient for everybody else.
// Only cmd and internal/background import it. The directory is the user's alone
// (0700) and so is the socket; the peer's uid is checked besides. Whoever gets
// through is the data dir's owner: it could read the token there as well.
//
// Two programs of different versions understand each other if the ranges of
// protocol numbers that they give have one in common (Hello.Speaks). A number
// rises when something changes that the other end cannot ignore; new fields and
// new paths do not.
package control

import "time"

// Protocol numbers: the newest that this program speaks, and the oldest.
const (
	Protocol       = 1
	OldestProtocol = 1
)

// SocketFile is the socket's name in the data dir.
const SocketFile = "server.sock"

// upgrade is the name of the stream's protocol in an Upgrade header.
const upgrade = "mcp-stdio"

// Hello says who serves a data dir.
type Hello struct {
	Protocol       int    `json:"protocol"`
	OldestProtocol int    `json:"oldest_protocol"`
	Version        string `json:"version"`
	// Build is the time of the commit that the program was built from, RFC 3339 in
	// UTC; "" when it is not known.
	Build string `json:"build,omitempty"`
	PID   int    `json:"pid"`
	// Background: it was started by a client, and not by a person.
	Background bool      `json:"background"`
	StartedAt  time.Time `json:"started_at"`
}

// Speaks tells whether that server and this program have a protocol in common.
func (h Hello) Speaks() bool {
	return h.Protocol >= OldestProtocol && h.OldestProtocol <= Protocol
}

// Attach says who asks for a stream.
type Attach struct {
	// SessionName is what --session gave, 1 to 64 of [A-Za-z0-9._-]; "" is a default
	// session of the connection's own.
	SessionName string `json:"session_name,omitempty"`
	// ConnectionID is a UUID that the client keeps over reconnections.
	ConnectionID string `json:"connection_id"`
	// ClientVersion and ClientPID are for the log.
	ClientVersion string `json:"client_version,omitempty"`
	ClientPID     int    `json:"client_pid,omitempty"`
	// Filled, in a Session request: the connection has filled its fresh session.
	Filled bool `json:"filled,omitempty"`
}

// SessionReply names a connection's default session.
type SessionReply struct {
	SessionID string `json:"session_id"`
	// Fresh: it is this connection's to fill, as no call has used it yet.
	Fresh bool `json:"fresh"`
}
