package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// checkValue checks one value and gives it in the form that decodes into the Go
// type: a whole number may be written 10.0 or 1e1.
func checkValue(name string, s *jsonschema.Schema, raw json.RawMessage) (json.RawMessage, error) {
	switch s.Type {
	case "string":
		return raw, checkString(name, s, raw)
	case "integer", "number":
		return checkNumber(name, s, raw)
	case "boolean":
		if raw[0] != 't' && raw[0] != 'f' {
			return nil, wrongType(name, "true or false", raw)
		}
		return raw, nil
	case "object":
		return raw, checkMap(name, s, raw)
	default:
		return nil, fmt.Errorf("argument %s: no check for type %q", name, s.Type)
	}
}

func checkString(name string, s *jsonschema.Schema, raw json.RawMessage) error {
	if raw[0] != '"' {
		return wrongType(name, "a string", raw)
	}
	if err := checkText(name, raw); err != nil {
		return err
	}
	if s.Enum == nil {
		return nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("argument %s: %w", name, err)
	}
	if !slices.Contains(s.Enum, any(text)) {
		return session.Errorf(session.InvalidArgument, "%s: %q is not one of %s", name, clip(text), choices(s.Enum))
	}
	return nil
}

func checkNumber(name string, s *jsonschema.Schema, raw json.RawMessage) (json.RawMessage, error) {
	want := "a number"
	if s.Type == "integer" {
		want = "a whole number"
	}
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return nil, wrongType(name, want, raw)
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return nil, session.Errorf(session.InvalidArgument, "%s: %s is out of range", name, clip(string(raw)))
	}
	if s.Minimum != nil && n < *s.Minimum {
		return nil, session.Errorf(session.InvalidArgument, "%s: %s is below the minimum of %s", name, clip(string(raw)), number(*s.Minimum))
	}
	if s.Maximum != nil && n > *s.Maximum {
		return nil, session.Errorf(session.InvalidArgument, "%s: %s is above the maximum of %s", name, clip(string(raw)), number(*s.Maximum))
	}
	if s.Type == "number" {
		return raw, nil
	}
	if _, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return raw, nil
	}
	const exact = 1 << 53 // up to here a float64 is a whole number without doubt
	if n != math.Trunc(n) {
		return nil, wrongType(name, want, raw)
	}
	if math.Abs(n) > exact {
		return nil, session.Errorf(session.InvalidArgument, "%s: %s is out of range", name, clip(string(raw)))
	}
	return json.RawMessage(strconv.FormatInt(int64(n), 10)), nil
}

// checkMap checks an object of free names, such as env.
func checkMap(name string, s *jsonschema.Schema, raw json.RawMessage) error {
	if raw[0] != '{' {
		return wrongType(name, "an object", raw)
	}
	if err := checkText(name, raw); err != nil {
		return err
	}
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &values); err != nil {
		return fmt.Errorf("argument %s: %w", name, err)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if _, err := checkValue(name+"."+clip(key), s.AdditionalProperties, values[key]); err != nil {
			return err
		}
	}
	return nil
}

func wrongType(name, want string, raw json.RawMessage) error {
	fix := ""
	switch {
	case want == "a string" && raw[0] != '{' && raw[0] != '[':
		fix = "; put it in quotes"
	case want != "a string" && raw[0] == '"':
		fix = "; send it without quotes"
	}
	return session.Errorf(session.InvalidArgument, "%s: want %s, got %s%s", name, want, describe(raw), fix)
}

// describe names a JSON value for a message.
func describe(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	switch raw[0] {
	case '"':
		return "the string " + clip(string(raw))
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f', 'n':
		return string(raw)
	default:
		return "the number " + clip(string(raw))
	}
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

func choices(values []any) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = fmt.Sprint(v)
	}
	return strings.Join(names, ", ")
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// clip cuts what a caller sent to what a message can hold.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
