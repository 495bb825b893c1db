package guest

import (
	"errors"
	"fmt"
)

// Code says what kind of error the guest reports.
type Code string

// The guest's error codes.
const (
	// CodeInvalid: the request is malformed, or repeats a call ID with other
	// arguments.
	CodeInvalid Code = "invalid"
	// CodeNotFound: no such command, file or directory.
	CodeNotFound Code = "not_found"
	// CodePermission: the sandbox user may not do that.
	CodePermission Code = "permission"
	// CodePrecondition: the state does not allow it (stdin closed, not a
	// regular file, no match in an edit, the sandbox is ending), or the call
	// took effect so long ago that its outcome is no longer kept.
	CodePrecondition Code = "precondition"
	// CodeConflict: expected_sha256 does not match.
	CodeConflict Code = "conflict"
	// CodeTooLarge: the content does not fit; the message says how to page.
	CodeTooLarge Code = "too_large"
	// CodeExhausted: a limit of the sandbox is reached (pids, memory, disk);
	// nothing was started or changed.
	CodeExhausted Code = "exhausted"
	// CodeRefused: the call ID was refused before and will never be carried out.
	CodeRefused Code = "refused"
	// CodeLost: the call had begun when the guest died; its outcome cannot be
	// known.
	CodeLost Code = "lost"
	// CodeUnstaged: contents of a copy were not staged; nothing was done.
	CodeUnstaged Code = "unstaged"
	// CodeFenced: the request is meant for another incarnation.
	CodeFenced Code = "fenced"
	// CodeInternal: a fault of the guest.
	CodeInternal Code = "internal"
)

// Error is an error that the guest reported.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return fmt.Sprintf("guest: %s: %s", e.Code, e.Message) }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf gives the guest's code of an error, or "" when the guest did not
// answer.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// ErrUnreachable is wrapped by every error that means: the guest gave no answer,
// and what it did is not known.
var ErrUnreachable = errors.New("guest gave no answer")
