package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// checkArguments splits the raw JSON arguments of a call of tool and checks them
// against its input schema: names, types, presence, ranges and fixed choices. It
// looks at what is there, so that an explicit 0 is not taken for "not given";
// null is. What is left to session.Validate are lengths and rules over several
// fields. Errors have InvalidArgument and name the field and the fix.
func checkArguments(tool string, schema *jsonschema.Schema, raw json.RawMessage) (map[string]json.RawMessage, error) {
	args, err := splitArguments(raw)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(args))
	if err := checkNames(tool, schema, names); err != nil {
		return nil, err
	}
	for _, name := range names {
		if isNull(args[name]) {
			delete(args, name)
			continue
		}
		if args[name], err = checkValue(name, schema.Properties[name], args[name]); err != nil {
			return nil, err
		}
	}
	for _, name := range schema.Required {
		if _, ok := args[name]; !ok {
			return nil, missingArgument(tool, schema, name)
		}
	}
	return args, nil
}

// maxMessage is about how long a message may become by what the caller sent.
const maxMessage = 400

func splitArguments(raw json.RawMessage) (map[string]json.RawMessage, error) {
	args := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(raw)) == 0 || isNull(raw) {
		return args, nil
	}
	if !utf8.Valid(raw) {
		// encoding/json would put U+FFFD in its place without a word.
		return nil, session.Errorf(session.InvalidArgument, "arguments: not valid UTF-8; send such bytes as base64 where encoding allows it")
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, session.Errorf(session.InvalidArgument, "arguments: want an object such as {\"name\": value}, got %s", describe(raw))
	}
	return args, nil
}

// checkNames refuses arguments that the tool does not have, all in one message.
func checkNames(tool string, schema *jsonschema.Schema, names []string) error {
	var message strings.Builder
	for _, name := range names {
		if schema.Properties[name] != nil {
			continue
		}
		if message.Len() > maxMessage {
			break
		}
		fmt.Fprintf(&message, "unknown argument %q; ", clip(name))
		if near := nearest(name, schema.PropertyOrder); near != "" {
			fmt.Fprintf(&message, "did you mean %s? ", near)
		}
	}
	if message.Len() == 0 {
		return nil
	}
	return session.Errorf(session.InvalidArgument, "%s%s takes: %s", &message, tool, takes(schema))
}

func missingArgument(tool string, schema *jsonschema.Schema, name string) error {
	if name == argSession {
		return session.Errorf(session.InvalidArgument,
			"%s: required; start_session makes a session and gives its ID, list_sessions shows yours", name)
	}
	return session.Errorf(session.InvalidArgument, "%s: required; %s takes: %s", name, tool, takes(schema))
}

// takes lists the arguments of a tool for a message.
func takes(schema *jsonschema.Schema) string {
	if len(schema.PropertyOrder) == 0 {
		return "no arguments"
	}
	names := slices.Clone(schema.PropertyOrder)
	for i, name := range names {
		if !slices.Contains(schema.Required, name) {
			names[i] += "?"
		}
	}
	return strings.Join(names, ", ") + " (? is optional)"
}
