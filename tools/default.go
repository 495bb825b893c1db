package tools

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// DefaultUse is a call that names no session.
type DefaultUse struct {
	// Starts: the call makes sense in a new session. Those that look at what is
	// there do not, and are refused or go to the session that has ended.
	Starts bool
	// Resent: the call was sent before, and may have been begun. It must not be
	// begun in another session.
	Resent bool
}

// DefaultSession is where a call that names no session goes.
type DefaultSession struct {
	SessionID string
	// Note is a line for the model, which stands after the result; "" is none.
	Note string
}

// looksBack tells whether a tool only makes sense for what a session has
// already: its commands, its state, its end.
func looksBack(tool string) bool {
	switch tool {
	case session.ReadOutput.Name, session.SendInput.Name, session.StopCommand.Name, session.GetSession.Name, session.EndSession.Name:
		return true
	}
	return false
}

// findSession takes the session from the arguments, or the connection's.
func (h *handler) findSession(ctx context.Context, req mcp.CallToolRequest, args map[string]json.RawMessage) (DefaultSession, error) {
	var id string
	if raw, ok := args[argSession]; ok {
		if err := json.Unmarshal(raw, &id); err != nil {
			return DefaultSession{}, fmt.Errorf("argument %s: %w", argSession, err)
		}
	}
	switch {
	case id != "":
		return DefaultSession{SessionID: id}, nil
	case h.opts.DefaultSession != nil:
		return h.opts.DefaultSession(ctx, DefaultUse{Starts: !looksBack(h.spec.Name), Resent: resent(req)})
	default:
		return DefaultSession{}, missingArgument(h.spec.Name, h.spec.Input, argSession)
	}
}

func resent(req mcp.CallToolRequest) bool {
	if req.Params.Meta == nil {
		return false
	}
	yes, _ := req.Params.Meta.AdditionalFields[session.MetaResent].(bool)
	return yes
}

// addNote puts the line about the session after what the tool says.
func addNote(r *mcp.CallToolResult, note string) *mcp.CallToolResult {
	if note != "" {
		r.Content = append(r.Content, mcp.NewTextContent(note))
	}
	return r
}
