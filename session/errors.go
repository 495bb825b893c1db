package session

import (
	"errors"
	"fmt"
)

// Code says what kind of error a call ended with, and so what a caller may do.
type Code string

// The error codes. Unavailable and Internal are worth a retry, the rest are not.
const (
	// InvalidArgument: fix the arguments. Nothing happened.
	InvalidArgument Code = "InvalidArgument"
	// NotFound: unknown, or someone else's.
	NotFound Code = "NotFound"
	// PermissionDenied: the sandbox user, or this owner, may not do that.
	PermissionDenied Code = "PermissionDenied"
	// FailedPrecondition: the session has ended or is in the wrong state.
	FailedPrecondition Code = "FailedPrecondition"
	// ResourceExhausted: a limit is reached; the message names it.
	ResourceExhausted Code = "ResourceExhausted"
	// DeadlineExceeded: not known yet. Send the same call ID again.
	DeadlineExceeded Code = "DeadlineExceeded"
	// Cancelled: the caller cancelled the call.
	Cancelled Code = "Cancelled"
	// Unavailable: nothing happened under this call ID. Retry with a new one.
	Unavailable Code = "Unavailable"
	// Lost: what happened cannot be known.
	Lost Code = "Lost"
	// Internal: a fault of mcp-sandbox.
	Internal Code = "Internal"
)

// Codes lists every code.
func Codes() []Code {
	return []Code{
		InvalidArgument, NotFound, PermissionDenied, FailedPrecondition, ResourceExhausted,
		DeadlineExceeded, Cancelled, Unavailable, Lost, Internal,
	}
}

// Error is the one error type that callers see. Message is for the agent: it
// names what is wrong and the next step.
type Error struct {
	Code    Code
	Message string
	err     error
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap gives the cause, which is for the log and never for the agent.
func (e *Error) Unwrap() error { return e.err }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes an Error with a cause.
func Wrap(cause error, code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), err: cause}
}

// CodeOf gives the code of an error: Internal for one that is no Error, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}
