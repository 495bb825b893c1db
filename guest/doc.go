// Package guest is the language of the program inside every sandbox: its wire
// types, the API they form, and the client that speaks it from the host.
//
// The program itself is in guest/supervisor, its main package in
// cmd/sandbox-guest, and the built binaries in guest/embedded. Backends use
// NewClient; package activities uses the API interface and the wire types.
//
// The protocol is JSON over HTTP/2 on any byte stream (for Docker, the stdio of
// one `docker exec -i <container> /.sandbox/guest dial-stdio`). This package
// imports neither session nor Temporal.
package guest
