package httpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const methodCancelled = "notifications/cancelled"

// message is as much of a JSON-RPC message as decides its way.
type message struct {
	id     json.RawMessage
	method string
	// stateless: of revision 2026-07-28 or later, which has no MCP sessions.
	stateless bool
}

// serveMCP screens what goes to mcp-go and refuses what it would take wrongly.
func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) {
	defer s.opts.Begin()()
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet, http.MethodDelete:
		stateless := mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) // mcp-go refuses these
		// mcp-go opens a stream for an ID that somebody made up, and for none.
		if stateless || s.checkMCPSession(w, r, message{}) {
			s.mcp.ServeHTTP(w, r)
		}
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, nil, "%s is not allowed here; use GET, POST or DELETE", r.Method)
	}
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	body, ok := s.readBody(w, r)
	if !ok {
		return
	}
	m, ok := parse(r.Header, body)
	if s.base.Err() != nil {
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusServiceUnavailable, m.id, "the server is shutting down and did nothing; try again when it is back")
		return
	}
	switch {
	case !ok: // mcp-go says what is wrong
	case m.stateless && m.method == methodCancelled:
		// mcp-go would cancel any client's request of that ID. Closing the stream
		// is how a client cancels here.
		w.WriteHeader(http.StatusAccepted)
		return
	case m.stateless:
	case m.method == string(mcp.MethodInitialize):
		if !s.sessions.room(ownerOf(r.Context())) {
			refuse(w, http.StatusTooManyRequests, m.id,
				"%d MCP sessions are open, the most an owner may have; end some with DELETE, or wait until idle ones expire", maxMCPSessions)
			return
		}
	case !s.checkMCPSession(w, r, m):
		return
	}
	ctx := r.Context()
	if m.method == string(mcp.MethodToolsCall) {
		var stop func()
		ctx, stop = outliveShutdown(ctx)
		defer stop()
	}
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	out := &response{ResponseWriter: w}
	s.mcp.ServeHTTP(out, r)
	if !out.wrote && s.base.Err() != nil {
		refuse(w, http.StatusServiceUnavailable, m.id, "the server is shutting down; try again when it is back")
	}
}

// readBody reads the whole body or answers for it.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	conn := http.NewResponseController(w)
	// No error where the server cannot set deadlines: then there are none.
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.MaxBodyBytes))
	_ = conn.SetReadDeadline(time.Time{}) // or it would end the request later
	if err == nil {
		return body, true
	}
	switch {
	case isType[*http.MaxBytesError](err):
		refuse(w, http.StatusRequestEntityTooLarge, nil,
			"the request is over %d bytes, the most this server takes; send less at a time", s.opts.MaxBodyBytes)
	case errors.Is(err, os.ErrDeadlineExceeded):
		refuse(w, http.StatusRequestTimeout, nil, "the request took over %s to arrive", bodyTimeout)
	default:
		refuse(w, http.StatusBadRequest, nil, "the request did not arrive whole")
	}
	return nil, false
}

// parse reads a message as mcp-go does, field by field, so that both take it
// for the same. ok is false for what mcp-go refuses as no message.
func parse(header http.Header, body []byte) (m message, ok bool) {
	var envelope struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(body, &envelope) != nil {
		return message{}, false
	}
	var meta struct {
		Params struct {
			Meta *mcp.Meta `json:"_meta"`
		} `json:"params"`
	}
	version := ""
	if json.Unmarshal(body, &meta) == nil {
		version = meta.Params.Meta.ProtocolVersion()
	}
	return message{
		id:        envelope.ID,
		method:    envelope.Method,
		stateless: mcp.IsModernProtocol(version) || mcp.IsModernProtocol(header.Get(mcp.HeaderProtocolVersion)),
	}, true
}

// checkMCPSession refuses a request whose MCP session is not its owner's, in the
// words for an unknown one.
func (s *Server) checkMCPSession(w http.ResponseWriter, r *http.Request, m message) bool {
	id := r.Header.Get(server.HeaderKeySessionID)
	if id == "" {
		refuse(w, http.StatusBadRequest, m.id, "the %s header is missing; send initialize first, and then the ID that it answers with", server.HeaderKeySessionID)
		return false
	}
	if !s.sessions.owns(ownerOf(r.Context()), id) {
		refuse(w, http.StatusNotFound, m.id, "no such MCP session; send initialize to open one (sandboxes are unaffected: use their session_id from there)")
		return false
	}
	return true
}
