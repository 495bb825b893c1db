package tools

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// inputSchema is the schema of an In type's arguments, with a required
// session_id in front if withSession. Unknown arguments are not allowed.
func inputSchema(t reflect.Type, withSession bool) *jsonschema.Schema {
	s := schemaOf(t)
	s.AdditionalProperties = falseSchema()
	if withSession {
		if s.Properties == nil {
			s.Properties = map[string]*jsonschema.Schema{}
		}
		s.Properties[argSession] = &jsonschema.Schema{Type: "string", Description: "From start_session."}
		s.PropertyOrder = slices.Insert(s.PropertyOrder, 0, argSession)
		s.Required = slices.Insert(s.Required, 0, argSession)
	}
	return s
}

// outputSchema is the schema of an Out type. It allows more properties, so that
// a result can grow under clients that remember an older schema.
func outputSchema(t reflect.Type) *jsonschema.Schema { return schemaOf(t) }

// schemaOf is what jsonschema infers from t, without the type arrays that some
// models refuse, open to more properties, and with the rules in our field tags.
func schemaOf(t reflect.Type) *jsonschema.Schema {
	s, err := jsonschema.ForType(t, nil)
	if err != nil {
		panic(fmt.Sprintf("tools: schema of %s: %v", t, err)) // a fault that every test finds
	}
	normalise(s, t)
	return s
}

func normalise(s *jsonschema.Schema, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	// The inferred alternative to each type is null: a pointer is plainly
	// optional, and a nil slice is sent as an empty one (fillSlices).
	if i := slices.IndexFunc(s.Types, func(name string) bool { return name != "null" }); i >= 0 {
		s.Type, s.Types = s.Types[i], nil
	}
	switch t.Kind() {
	case reflect.Slice:
		normalise(s.Items, t.Elem())
	case reflect.Map:
		normalise(s.AdditionalProperties, t.Elem())
	case reflect.Struct:
		s.AdditionalProperties = nil
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if p := s.Properties[name]; p != nil {
				normalise(p, f.Type)
				applyTags(p, f.Tag)
			}
		}
	default:
	}
}

// applyTags adds the rules that session.Validate enforces. It counts lengths in
// bytes, JSON Schema in characters: what passes here may still be refused there.
func applyTags(s *jsonschema.Schema, tag reflect.StructTag) {
	s.Minimum = numberTag(tag, "minimum")
	s.Maximum = numberTag(tag, "maximum")
	s.MinLength = lengthTag(tag, "minLength")
	s.MaxLength = lengthTag(tag, "maxLength")
	if text := tag.Get("enum"); text != "" {
		for value := range strings.SplitSeq(text, ",") {
			s.Enum = append(s.Enum, value)
		}
	}
	if text := tag.Get("default"); text != "" {
		if s.Type == "string" {
			text = strconv.Quote(text)
		}
		s.Default = json.RawMessage(text)
	}
}

func numberTag(tag reflect.StructTag, key string) *float64 {
	text := tag.Get(key)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("tools: tag %s:%q: %v", key, text, err))
	}
	return &n
}

func lengthTag(tag reflect.StructTag, key string) *int {
	n := numberTag(tag, key)
	if n == nil {
		return nil
	}
	length := int(*n)
	return &length
}

// falseSchema fits nothing. jsonschema writes it as false.
func falseSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Not: &jsonschema.Schema{}}
}

// encodeSchema gives the schema as a client reads it.
func encodeSchema(s *jsonschema.Schema) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("tools: encode schema: %v", err))
	}
	return b
}

// tailor fits a tool's arguments to a server: the networks that agents may ask
// for, and whether session_id may be left out.
func tailor(s Spec, networks []string, defaultSession bool) Spec {
	in := s.Input.CloneSchemas()
	if s.Name == session.StartSession.Name {
		in.Properties["network"].Enum = nil
		for _, n := range networks {
			in.Properties["network"].Enum = append(in.Properties["network"].Enum, any(n))
		}
	}
	if !s.Global && defaultSession {
		in.Required = slices.DeleteFunc(slices.Clone(in.Required), func(name string) bool { return name == argSession })
		in.Properties[argSession].Description = "From start_session. Default: this connection's session."
	}
	s.Input = in
	return s
}
