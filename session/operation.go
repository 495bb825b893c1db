package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Operation is something that can be done to a session. Its name is the name of
// the tool, of the update on the workflow and of the activity family.
type Operation[In, Out any] struct{ Name string }

// Call says who asks for what, under which ID.
type Call struct {
	// Owner is the authenticated caller's.
	Owner string
	// SessionID is empty for operations that concern no one session.
	SessionID string
	// CallID identifies this use of the operation: 1 to 128 of [A-Za-z0-9_-]. The
	// same ID again gives the same answer. Empty has Do make one.
	CallID string
	// Progress has run_command tell what its command prints (CommandProgress).
	Progress bool
}

// Meta is what a call's answer is joined to: Temporal's history of it.
type Meta struct {
	CallID     string
	SessionID  string
	WorkflowID string
	RunID      string
}

// Caller carries calls to sessions; Client is one.
type Caller interface {
	// Invoke performs the operation with this name. in points to its In, out to
	// its Out. Errors are *Error. Meta is filled as far as it is known, also
	// beside an error.
	Invoke(ctx context.Context, operation string, call Call, in, out any) (Meta, error)
}

// Do validates in and performs op. Errors are *Error.
func Do[In, Out any](ctx context.Context, c Caller, op Operation[In, Out], call Call, in In) (Out, Meta, error) {
	var out Out
	if call.CallID == "" {
		call.CallID = NewCallID()
	}
	meta := Meta{CallID: call.CallID, SessionID: call.SessionID}
	if err := CheckCallID(call.CallID); err != nil {
		return out, meta, err
	}
	if err := Validate(&in); err != nil {
		return out, meta, err
	}
	meta, err := c.Invoke(ctx, op.Name, call, &in, &out)
	return out, meta, err
}

// Request is the argument of every update.
type Request[In any] struct {
	Owner string `json:"owner"`
	// Digest identifies operation and arguments (Digest).
	Digest string `json:"digest"`
	In     In     `json:"in"`
	// LeftMS is how long the caller can still wait, in milliseconds: a wait of the
	// call is cut short to it, as an answer that comes later reaches nobody. 0 is
	// no such bound.
	LeftMS int64 `json:"left_ms,omitempty"`
	// Progress is the call's.
	Progress bool `json:"progress,omitempty"`
}

// Response is the result of every update. Temporal answers a repeated update ID
// with the first update's result, whatever its name and arguments were: by the
// digest the client sees that the ID was used for something else.
type Response[Out any] struct {
	Digest string `json:"digest"`
	Out    Out    `json:"out"`
}

// Digest identifies an operation with its arguments.
func Digest(operation string, in any) (string, error) {
	b, err := json.Marshal(in) // maps are sorted, structs in field order
	if err != nil {
		return "", fmt.Errorf("encode arguments of %s: %w", operation, err)
	}
	sum := sha256.Sum256(append([]byte(operation+"\x00"), b...))
	return hex.EncodeToString(sum[:16]), nil
}
