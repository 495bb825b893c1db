package httpserver

import (
	"bytes"
	"encoding/json"
	"net"
	"net/netip"
)

// URL is where a client on this machine finds the server that listens on addr.
func URL(addr net.Addr, tls bool) string {
	scheme := "http://"
	if tls {
		scheme = "https://"
	}
	hostPort := addr.String()
	if ap, err := netip.ParseAddrPort(hostPort); err == nil && ap.Addr().IsUnspecified() {
		// All addresses: loopback is the one that is always there.
		_, port, _ := net.SplitHostPort(hostPort)
		hostPort = net.JoinHostPort("127.0.0.1", port)
	}
	return scheme + hostPort + Path
}

// ClientConfig is the JSON that a user pastes into the configuration of an MCP
// client. Without a token it has no headers.
func ClientConfig(url, token string) string {
	type entry struct {
		Type    string            `json:"type"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers,omitempty"`
	}
	e := entry{Type: "http", URL: url}
	if token != "" {
		e.Headers = map[string]string{"Authorization": "Bearer " + token}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	// Strings and maps of strings always encode.
	_ = enc.Encode(map[string]map[string]entry{"mcpServers": {"mcp-sandbox": e}})
	return out.String()
}
