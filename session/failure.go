package session

import (
	"errors"

	"go.temporal.io/sdk/temporal"
)

// EncodeError makes the form in which an Error travels from activities and
// workflows: an application error whose type is the code. It is not retried;
// return any other error from an activity for a passing fault.
func EncodeError(err *Error) error {
	return temporal.NewApplicationErrorWithOptions(err.Message, string(err.Code), temporal.ApplicationErrorOptions{
		NonRetryable: true,
		Cause:        err.err,
	})
}

// DecodeError is the way back, for errors of updates and activities. What is no
// Error of ours becomes Internal, with the original as its cause.
func DecodeError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		for _, code := range Codes() {
			if app.Type() == string(code) {
				return Wrap(errors.Unwrap(app), code, "%s", app.Message())
			}
		}
	}
	return Wrap(err, Internal, "internal error")
}

// FailureType gives the type of an application error, or "".
func FailureType(err error) string {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return app.Type()
	}
	return ""
}
