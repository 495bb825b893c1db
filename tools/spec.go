package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Toolsets, the groups that tools can be chosen by.
const (
	ToolsetCore      = "core"
	ToolsetFiles     = "files"
	ToolsetSnapshots = "snapshots"
	ToolsetObserve   = "observe"
)

// Toolsets lists every toolset.
func Toolsets() []string {
	return []string{ToolsetCore, ToolsetFiles, ToolsetSnapshots, ToolsetObserve}
}

// CheckToolsets refuses names that are no toolset's.
func CheckToolsets(names []string) error {
	for _, name := range names {
		if !slices.Contains(Toolsets(), name) {
			return fmt.Errorf("no toolset %q; there are %s", name, strings.Join(Toolsets(), ", "))
		}
	}
	return nil
}

// argSession is the argument that names the session.
const argSession = "session_id"

// Spec is one tool: an operation with what MCP says about it.
type Spec struct {
	Name        string
	Title       string
	Description string
	Toolset     string
	Hints       Hints
	// Global tools concern no one session and take no session_id of their own.
	Global bool
	// Large tools answer with more text than Claude Code shows by default.
	Large bool
	// Input and Output are the schemas of arguments and structured result; Input
	// has session_id required and every network.
	Input, Output *jsonschema.Schema

	perform func(ctx context.Context, c session.Caller, call session.Call, args map[string]json.RawMessage) (answer, error)
}

// Hints are the annotations of a tool, all of which are sent.
type Hints struct {
	// ReadOnly tools change nothing.
	ReadOnly bool
	// Destructive tools can lose what was there before.
	Destructive bool
	// Idempotent tools do nothing more when called again with the same arguments.
	Idempotent bool
	// OpenWorld tools can reach beyond the sandbox, as far as its network goes.
	OpenWorld bool
}

// answer is a successful call: text for the model, out for programs.
type answer struct {
	text string
	out  any
	meta session.Meta
}

// Catalog lists every tool in the order in which they are shown.
func Catalog() []Spec {
	return slices.Concat(lifecycleTools(), commandTools(), fileTools(), snapshotTools())
}

// define completes s for an operation: its name, schemas and the call. text
// renders the result so that an agent can act on it alone.
func define[In, Out any](op session.Operation[In, Out], s Spec, text func(Out) string) Spec {
	s.Name = op.Name
	s.Input = inputSchema(reflect.TypeFor[In](), !s.Global)
	s.Output = outputSchema(reflect.TypeFor[Out]())
	s.perform = func(ctx context.Context, c session.Caller, call session.Call, args map[string]json.RawMessage) (answer, error) {
		in, err := bind[In](args)
		if err != nil {
			return answer{}, err
		}
		out, meta, err := session.Do(ctx, c, op, call, in)
		if err != nil {
			return answer{meta: meta}, err
		}
		fillSlices(reflect.ValueOf(&out).Elem())
		return answer{text: text(out), out: out, meta: meta}, nil
	}
	return s
}

// bind decodes checked arguments.
func bind[In any](args map[string]json.RawMessage) (In, error) {
	var in In
	b, err := json.Marshal(args)
	if err == nil {
		err = json.Unmarshal(b, &in)
	}
	if err != nil {
		// checkArguments lets nothing pass that does not fit: a fault of ours.
		return in, fmt.Errorf("bind arguments: %w", err)
	}
	return in, nil
}

// fillSlices makes nil slices empty: JSON null is no array, and the output
// schemas promise arrays.
func fillSlices(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fillSlices(field)
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillSlices(v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			fillSlices(v.Elem())
		}
	default:
	}
}

// maxResultChars lifts Claude Code's cut at about 50,000 characters, to the
// most it takes.
const maxResultChars = 500_000

// Tool is the tool as MCP clients see it.
func (s Spec) Tool() mcp.Tool {
	t := mcp.Tool{
		Name:            s.Name,
		Title:           s.Title,
		Description:     s.Description,
		RawInputSchema:  encodeSchema(s.Input),
		RawOutputSchema: encodeSchema(s.Output),
		Annotations: mcp.ToolAnnotation{
			ReadOnlyHint:    &s.Hints.ReadOnly,
			DestructiveHint: &s.Hints.Destructive,
			IdempotentHint:  &s.Hints.Idempotent,
			OpenWorldHint:   &s.Hints.OpenWorld,
		},
	}
	if s.Large {
		t.Meta = &mcp.Meta{AdditionalFields: map[string]any{"anthropic/maxResultSizeChars": maxResultChars}}
	}
	return t
}
