package harness

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tool is a tool as tools/list shows it.
type Tool struct {
	Name        string          `json:"name"`
	Annotations map[string]bool `json:"-"`
	Input       struct {
		Required   []string          `json:"required"`
		Properties map[string]Schema `json:"properties"`
	} `json:"inputSchema"`
}

// Schema is as much of an argument's schema as a caller needs to make one up.
type Schema struct {
	Type    string   `json:"type"`
	Enum    []string `json:"enum"`
	Minimum float64  `json:"minimum"`
	Maximum *float64 `json:"maximum"`
}

// Tools lists the tools.
func (c *Client) Tools(t *testing.T) []Tool {
	t.Helper()
	r, err := c.post(t.Context(), "tools/list", "", Args{"_meta": clientMeta()})
	require.NoError(t, err)
	var list struct {
		Tools []struct {
			Tool
			Annotations map[string]any `json:"annotations"`
		} `json:"tools"`
	}
	require.NoError(t, json.Unmarshal(r.Raw, &list))
	tools := make([]Tool, len(list.Tools))
	for i, l := range list.Tools {
		tools[i] = l.Tool
		tools[i].Annotations = map[string]bool{}
		for key, v := range l.Annotations {
			if hint, ok := v.(bool); ok {
				tools[i].Annotations[key] = hint
			}
		}
	}
	return tools
}

// Minimal makes up the required arguments of a tool; given ones come on top.
func (tool Tool) Minimal(given Args) Args {
	args := Args{}
	for _, name := range tool.Input.Required {
		switch s := tool.Input.Properties[name]; {
		case len(s.Enum) > 0:
			args[name] = s.Enum[0]
		case s.Type == "integer" || s.Type == "number":
			args[name] = max(s.Minimum, 1)
		case s.Type == "boolean":
			args[name] = true
		default:
			args[name] = name // text, and unlike that of any other argument
		}
	}
	if tool.Name == "send_input" {
		args["close"] = true // one of its optional arguments is required
	}
	maps.Copy(args, given)
	return args
}

func clientMeta() Args {
	return Args{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": Args{},
		"io.modelcontextprotocol/clientInfo":         Args{"name": "harness", "version": "1"},
	}
}
