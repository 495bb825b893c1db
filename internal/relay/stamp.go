package relay

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const methodCall = "tools/call"

// stampCall gives a tools/call a call ID if it has none. What is not as MCP has
// it stays as it is: the server says what is wrong.
func stampCall(line []byte, newID func() string) (out []byte, callID string) {
	out = editMeta(line, func(meta map[string]json.RawMessage) bool {
		if own := meta[session.MetaCallID]; own != nil && string(own) != "null" {
			_ = json.Unmarshal(own, &callID) // anything but text is refused by the server
			return false
		}
		callID = newID()
		meta[session.MetaCallID] = quote(callID)
		return true
	})
	return out, callID
}

// stampLate marks a request that was sent before, or has waited to be sent.
func stampLate(line []byte, resent bool, waited time.Duration) []byte {
	return editMeta(line, func(meta map[string]json.RawMessage) bool {
		if resent {
			meta[session.MetaResent] = json.RawMessage("true")
		}
		meta[session.MetaWaitedMS] = json.RawMessage(strconv.FormatInt(waited.Milliseconds(), 10))
		return true
	})
}

// editMeta lets edit change params._meta; it tells whether it did.
func editMeta(line []byte, edit func(meta map[string]json.RawMessage) bool) []byte {
	var message, params, meta map[string]json.RawMessage
	if json.Unmarshal(line, &message) != nil {
		return line
	}
	if raw := message["params"]; raw != nil && json.Unmarshal(raw, &params) != nil {
		return line
	}
	if params == nil {
		params = map[string]json.RawMessage{}
	}
	if raw := params["_meta"]; raw != nil && json.Unmarshal(raw, &meta) != nil {
		return line
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	if !edit(meta) {
		return line
	}
	params["_meta"] = encode(meta)
	message["params"] = encode(params)
	return encode(message)
}

// encode writes raw messages as they are, but for the blanks between.
func encode(v map[string]json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // raw messages that were decoded a moment ago
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

func quote(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // text always encodes
	}
	return b
}
