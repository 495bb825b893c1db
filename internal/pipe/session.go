package pipe

import (
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// notificationRoom is how many notifications wait to be written; mcp-go drops
// those beyond.
const notificationRoom = 100

// mcpSession is the MCP session of one connection.
type mcpSession struct {
	id            string
	notifications chan mcp.JSONRPCNotification
	initialized   atomic.Bool

	mu           sync.Mutex
	client       mcp.Implementation
	capabilities mcp.ClientCapabilities
}

var _ server.SessionWithClientInfo = (*mcpSession)(nil)

func newMCPSession(id string) *mcpSession {
	return &mcpSession{id: id, notifications: make(chan mcp.JSONRPCNotification, notificationRoom)}
}

// SessionID implements server.ClientSession.
func (s *mcpSession) SessionID() string { return s.id }

// NotificationChannel implements server.ClientSession.
func (s *mcpSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.notifications }

// Initialize implements server.ClientSession.
func (s *mcpSession) Initialize() { s.initialized.Store(true) }

// Initialized implements server.ClientSession.
func (s *mcpSession) Initialized() bool { return s.initialized.Load() }

// GetClientInfo implements server.SessionWithClientInfo.
func (s *mcpSession) GetClientInfo() mcp.Implementation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// SetClientInfo implements server.SessionWithClientInfo.
func (s *mcpSession) SetClientInfo(client mcp.Implementation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = client
}

// GetClientCapabilities implements server.SessionWithClientInfo.
func (s *mcpSession) GetClientCapabilities() mcp.ClientCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capabilities
}

// SetClientCapabilities implements server.SessionWithClientInfo.
func (s *mcpSession) SetClientCapabilities(c mcp.ClientCapabilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capabilities = c
}
