package session

import "context"

// CommandProgress is the heartbeat of the activity that waits for a command, if
// its call asked to be told (Call.Progress).
type CommandProgress struct {
	CallID string `json:"call_id"`
	// LastLine is the last line of output that is not blank, at most 200 bytes,
	// without control characters; "" before there is one.
	LastLine string `json:"last_line,omitempty"`
	// Bytes is what stdout and stderr have printed.
	Bytes int64 `json:"bytes"`
}

func (p CommandProgress) call() string { return p.CallID }

// CommandProgress tells how far the command of a call is that still waits, as
// far as its worker has said: some seconds old, and nothing in its first.
func (c *Client) CommandProgress(ctx context.Context, call Call) (CommandProgress, bool) {
	return heartbeatOf[CommandProgress](ctx, c, call.SessionID, call.CallID)
}

// CopyProgress tells how far a copy is, as far as its worker has said.
func (a *Admin) CopyProgress(ctx context.Context, sessionID, callID string) (CopyProgress, bool) {
	return heartbeatOf[CopyProgress](ctx, a.client, sessionID, callID)
}

// heartbeatOf finds what the activity of a call said last. It is of this process
// or another's worker: Temporal has it.
func heartbeatOf[T interface{ call() string }](ctx context.Context, c *Client, sessionID, callID string) (T, bool) {
	var none T
	resp, err := c.temporal.DescribeWorkflowExecution(ctx, WorkflowIDPrefix+sessionID, "")
	if err != nil {
		return none, false
	}
	dc := DataConverter()
	for _, p := range resp.GetPendingActivities() {
		var said T
		if p.GetHeartbeatDetails() == nil || dc.FromPayloads(p.GetHeartbeatDetails(), &said) != nil {
			continue
		}
		if said.call() == callID {
			return said, true
		}
	}
	return none, false
}
