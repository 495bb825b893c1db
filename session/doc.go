// Package session is the contract of mcp-sandbox: the operations on a session,
// their argument and result types, the error codes, every name that goes over a
// wire, and the client that carries an operation to its session's workflow.
//
// Entry points: the Operation values (RunCommand, WriteFile, ...), Do to use one
// through a Caller, Client as the Caller over Temporal, Error and CodeOf.
//
// Everybody may import this package; it imports nothing else of this module and
// starts workflows by name only. Wire types change by adding fields.
package session
