package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// interruptTimeout bounds Options.Interrupt.
const interruptTimeout = 5 * time.Second

// errNoOwner is a fault of the transport's wiring.
var errNoOwner = errors.New("no owner in the request's context")

// handler serves one tool.
type handler struct {
	opts Options
	spec Spec
}

// handle is the tool's server.ToolHandlerFunc. It never returns an error and
// never panics.
func (h *handler) handle(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	start := h.opts.Now()
	call := session.Call{Owner: ownerOf(ctx)}
	var note string
	a, err := h.attempt(ctx, req, &call, &note)
	if a.meta.CallID == "" {
		a.meta.CallID = call.CallID
	}
	sessionID := cmp.Or(call.SessionID, a.meta.SessionID)
	joinSpan(ctx, sessionID, a.meta)
	log := h.opts.Logger.With("tool", h.spec.Name, session.KeySession, sessionID, session.KeyCall, call.CallID,
		session.KeyWorkflow, a.meta.WorkflowID, session.KeyRun, a.meta.RunID)
	if err == nil {
		log.DebugContext(ctx, "tool call", "duration", h.opts.Now().Sub(start))
		return addNote(h.success(ctx, a), note), nil
	}
	shown := h.shown(ctx, call, err)
	level := slog.LevelDebug
	if shown.Code == session.Internal {
		level = slog.LevelError
	}
	log.Log(ctx, level, "tool call failed", "code", shown.Code, "error", detail(err), "duration", h.opts.Now().Sub(start))
	return addNote(h.failure(ctx, a.meta, shown), note), nil
}

// attempt makes the call. It fills in call and note as far as it gets.
func (h *handler) attempt(ctx context.Context, req mcp.CallToolRequest, call *session.Call, note *string) (a answer, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	if call.Owner == "" {
		return a, errNoOwner
	}
	if call.CallID, err = callID(req); err != nil {
		return a, err
	}
	args, err := checkArguments(h.spec.Name, h.spec.Input, rawArguments(req))
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience(req))
	defer cancel()
	progress := h.reportProgress(ctx, req)
	defer progress.stop()
	if !h.spec.Global {
		found, err := h.findSession(ctx, req, args)
		if err != nil {
			return a, err
		}
		call.SessionID, *note = found.SessionID, found.Note
		delete(args, argSession)
	}
	call.Progress = progress.follow(*call)
	if err := ctx.Err(); err != nil {
		return a, err // cancelled before anything happened
	}
	defer h.interruptOnCancel(ctx, *call)()
	return h.spec.perform(ctx, h.opts.Caller, *call, args)
}

// interruptOnCancel stops the command of a run_command when its client cancels
// the call. done must be called when the call has ended; it waits for an
// interrupt under way.
func (h *handler) interruptOnCancel(ctx context.Context, call session.Call) (done func()) {
	if h.spec.Name != session.RunCommand.Name || h.opts.Interrupt == nil {
		return func() {}
	}
	sent := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(sent)
		if !CancelledByClient(ctx) {
			return
		}
		if err := h.interrupt(ctx, call); err != nil {
			h.opts.Logger.WarnContext(ctx, "interrupt a cancelled command",
				session.KeySession, call.SessionID, session.KeyCall, call.CallID, "error", err)
		}
	})
	return func() {
		if !stop() {
			<-sent
		}
	}
}

func (h *handler) interrupt(ctx context.Context, call session.Call) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTimeout)
	defer cancel()
	return h.opts.Interrupt(ctx, call)
}

// leastPatience is what a call is given that was long on its way: its caller
// may be more patient than most.
const leastPatience = 15 * time.Second

// patience is how long the call may take, the start of its session included.
func patience(req mcp.CallToolRequest) time.Duration {
	if req.Params.Meta == nil {
		return session.AnswerWithin
	}
	waited, _ := req.Params.Meta.AdditionalFields[session.MetaWaitedMS].(float64)
	waited = min(max(waited, 0), float64(session.AnswerWithin.Milliseconds()))
	return max(session.AnswerWithin-time.Duration(waited)*time.Millisecond, leastPatience)
}

// callID is the client's idempotency key, or a new ID.
func callID(req mcp.CallToolRequest) (string, error) {
	if req.Params.Meta == nil || req.Params.Meta.AdditionalFields[session.MetaCallID] == nil {
		return session.NewCallID(), nil
	}
	id, ok := req.Params.Meta.AdditionalFields[session.MetaCallID].(string)
	if !ok {
		return "", session.Errorf(session.InvalidArgument, "_meta[%q] must be a string", session.MetaCallID)
	}
	if err := session.CheckCallID(id); err != nil {
		return "", err
	}
	return id, nil
}

// rawArguments gives the arguments as the client wrote them, so that large
// numbers keep their digits.
func rawArguments(req mcp.CallToolRequest) json.RawMessage {
	if len(req.Params.RawArguments) > 0 || req.Params.Arguments == nil {
		return req.Params.RawArguments
	}
	b, err := json.Marshal(req.Params.Arguments) // a caller in this process
	if err != nil {
		panic(err)
	}
	return b
}
