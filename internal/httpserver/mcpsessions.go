package httpserver

import (
	"crypto/rand"
	"errors"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/server"
)

// maxMCPSessions bounds the MCP sessions of one owner: mcp-go holds some 10 KB
// for each.
const maxMCPSessions = 10_000

var errNoMCPSession = errors.New("no such MCP session")

// mcpSessions knows every open MCP session and whose it is. mcp-go's own
// registry binds none to an owner and remembers each ended one for ever.
type mcpSessions struct {
	mu     sync.Mutex
	owners map[string]string // by MCP session ID
	counts map[string]int    // by owner
}

var _ server.SessionIdManagerResolver = (*mcpSessions)(nil)

func newMCPSessions() *mcpSessions {
	return &mcpSessions{owners: make(map[string]string), counts: make(map[string]int)}
}

// ResolveSessionIdManager gives the MCP sessions that r's owner sees. Without a
// request it is mcp-go that ends one, which has expired, for itself.
func (m *mcpSessions) ResolveSessionIdManager(r *http.Request) server.SessionIdManager { //nolint:revive,staticcheck // mcp-go's name
	if r == nil {
		return ownedMCPSessions{all: m, any: true}
	}
	return ownedMCPSessions{all: m, owner: ownerOf(r.Context())}
}

// room tells whether owner may open another.
func (m *mcpSessions) room(owner string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[owner] < maxMCPSessions
}

func (m *mcpSessions) owns(owner, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.owners[id]
	return ok && o == owner
}

func (m *mcpSessions) add(owner string) (id string) {
	id = rand.Text()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owners[id] = owner
	m.counts[owner]++
	return id
}

func (m *mcpSessions) remove(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	owner, ok := m.owners[id]
	if !ok {
		return
	}
	delete(m.owners, id)
	if m.counts[owner]--; m.counts[owner] == 0 {
		delete(m.counts, owner)
	}
}

// ownedMCPSessions is the part of mcpSessions that one owner sees.
type ownedMCPSessions struct {
	all   *mcpSessions
	owner string
	any   bool // every owner's
}

// Generate opens an MCP session.
func (o ownedMCPSessions) Generate() string { return o.all.add(o.owner) }

// Validate refuses an ID that is unknown, ended or someone else's, all alike.
func (o ownedMCPSessions) Validate(id string) (terminated bool, err error) {
	if !o.all.owns(o.owner, id) {
		return false, errNoMCPSession
	}
	return false, nil
}

// Terminate ends an MCP session. serveMCP has checked the owner of a request
// already.
func (o ownedMCPSessions) Terminate(id string) (notAllowed bool, err error) {
	if o.any || o.all.owns(o.owner, id) {
		o.all.remove(id)
	}
	return false, nil
}
