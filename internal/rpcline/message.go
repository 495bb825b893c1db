package rpcline

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Codes of error answers, as JSON-RPC 2.0 has them.
const (
	ParseError     = -32700
	InvalidRequest = -32600
	InternalError  = -32603
	// ServerBusy and ServerGone are of the range left to implementations.
	ServerBusy = -32001
	ServerGone = -32002
)

// Message is as much of a message as decides its way.
type Message struct {
	// ID as it was written; nil where it is missing or null.
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

// ErrNoMessage says that a text is no JSON object.
var ErrNoMessage = errors.New("not a JSON-RPC message: want one JSON object on a line")

// Parse reads a line.
func Parse(line []byte) (Message, error) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &m) != nil {
		return Message{}, ErrNoMessage
	}
	if string(m.ID) == "null" {
		m.ID = nil
	}
	return Message{ID: m.ID, Method: m.Method, Params: m.Params}, nil
}

// IsRequest tells whether it wants an answer.
func (m Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsResponse tells whether it is an answer, to a request of ours.
func (m Message) IsResponse() bool { return m.Method == "" && m.ID != nil }

// Cancelled gives the ID that a notifications/cancelled names, as it was written.
func (m Message) Cancelled() (id json.RawMessage, ok bool) {
	if m.Method != "notifications/cancelled" {
		return nil, false
	}
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(m.Params, &p) // one without an ID cancels nothing
	return p.RequestID, true
}

// Failure is an error answer as a line, with its line break. Without an ID it
// has null, as JSON-RPC wants where the request's is not known.
func Failure(id json.RawMessage, code int, message string, data any) []byte {
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}
	if id == nil {
		id = json.RawMessage("null")
	}
	line, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   failure         `json:"error"`
	}{"2.0", id, failure{code, message, data}})
	if err != nil { // data that does not encode
		return Failure(nil, InternalError, "internal error", nil)
	}
	return append(line, '\n')
}
