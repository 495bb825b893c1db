package tools_test

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// caller is a session.Caller whose answer a test chooses. It keeps the calls.
type caller struct {
	// answer fills out, which points to the operation's Out. Default: nothing.
	answer func(ctx context.Context, operation string, call session.Call, in, out any) error

	mu    sync.Mutex
	calls []invocation
}

type invocation struct {
	operation string
	call      session.Call
	in        any // the In itself
}

func (c *caller) Invoke(ctx context.Context, operation string, call session.Call, in, out any) (session.Meta, error) {
	c.mu.Lock()
	c.calls = append(c.calls, invocation{operation, call, reflect.Indirect(reflect.ValueOf(in)).Interface()})
	c.mu.Unlock()
	meta := session.Meta{CallID: call.CallID, SessionID: call.SessionID, WorkflowID: "session/" + call.SessionID, RunID: "run"}
	if c.answer == nil {
		return meta, nil
	}
	return meta, c.answer(ctx, operation, call, in, out)
}

func (c *caller) invocations() []invocation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]invocation(nil), c.calls...)
}

// fails is an answer with an error.
func fails(err error) func(context.Context, string, session.Call, any, any) error {
	return func(context.Context, string, session.Call, any, any) error { return err }
}

// gives is an answer with a result.
func gives(result any) func(context.Context, string, session.Call, any, any) error {
	return func(_ context.Context, _ string, _ session.Call, _, out any) error {
		b, err := json.Marshal(result)
		if err != nil {
			return err
		}
		return json.Unmarshal(b, out)
	}
}

func defaultSession(id string) func(context.Context, tools.DefaultUse) (tools.DefaultSession, error) {
	return func(context.Context, tools.DefaultUse) (tools.DefaultSession, error) {
		return tools.DefaultSession{SessionID: id}, nil
	}
}
