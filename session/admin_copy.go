package session

import (
	"context"
	"strings"
)

// CheckCopy tells whether a session can take a copy: NotFound when there is
// none, FailedPrecondition when it has ended.
func (a *Admin) CheckCopy(ctx context.Context, sessionID string) error {
	_, err := a.copyOwner(ctx, sessionID)
	return err
}

func (a *Admin) copyOwner(ctx context.Context, sessionID string) (string, error) {
	s, err := a.findSession(ctx, sessionID)
	if err != nil {
		return "", err
	}
	if s.Status == StatusEnded {
		return "", Errorf(FailedPrecondition, "session %s has ended; mcp-sandbox sessions list shows those that run", sessionID)
	}
	return s.Owner, nil
}

// CopyIn makes a tree in a session's sandbox. DeadlineExceeded when ctx ended,
// or the client's AnswerWithin was over: with the same call ID it goes on where
// it is.
func (a *Admin) CopyIn(ctx context.Context, sessionID, callID string, in CopyInIn) (CopyInOut, error) {
	return adminCopy(ctx, a, CopyIn, sessionID, callID, in)
}

// CopyOut reads a tree in a session's sandbox. The rest as for CopyIn.
func (a *Admin) CopyOut(ctx context.Context, sessionID, callID string, in CopyOutIn) (CopyOutOut, error) {
	return adminCopy(ctx, a, CopyOut, sessionID, callID, in)
}

func adminCopy[In, Out any](ctx context.Context, a *Admin, op Operation[In, Out], sessionID, callID string, in In) (Out, error) {
	var out Out
	owner, err := a.copyOwner(ctx, sessionID)
	if err != nil {
		return out, err
	}
	out, _, err = Do(ctx, a.client, op, Call{Owner: owner, SessionID: sessionID, CallID: callID}, in)
	if err == nil {
		return out, nil
	}
	if e := DecodeError(err); e.err != nil && strings.Contains(e.err.Error(), "unknown update") {
		return out, Wrap(err, FailedPrecondition, "the server or worker that runs is older than cp: restart it with this version")
	}
	return out, a.explain(ctx, err)
}
