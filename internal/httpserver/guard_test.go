package httpserver_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/httpserver"
)

// list is a harmless request that every revision answers.
func list(t *testing.T) call {
	t.Helper()
	return call{
		revision: modern, header: map[string]string{"Mcp-Method": "tools/list"},
		body: message(t, modern, 1, "tools/list", nil),
	}
}

func TestHostIsCheckedAgainstDNSRebinding(t *testing.T) {
	f := newFixture(t, func(o *httpserver.Options) {
		o.AllowedHosts = []string{"Sandbox.Example.com", "other.example.com:8443", "192.0.2.7"}
	})
	_, port, err := net.SplitHostPort(f.listenerAddr())
	require.NoError(t, err)
	tests := map[string]int{
		"127.0.0.1:" + port:         http.StatusOK,
		"localhost:" + port:         http.StatusOK,
		"LOCALHOST.":                http.StatusOK,
		"localhost:9999":            http.StatusOK, // a tunnel
		"[::1]:" + port:             http.StatusOK,
		"sandbox.example.com":       http.StatusOK,
		"sandbox.example.com.:1234": http.StatusOK,
		"other.example.com:8443":    http.StatusOK,
		"192.0.2.7:80":              http.StatusOK,
		"other.example.com":         http.StatusForbidden,
		"evil.example:" + port:      http.StatusForbidden,
		"127.0.0.1.evil.example":    http.StatusForbidden,
		"localhost.evil.example":    http.StatusForbidden,
		"192.0.2.8":                 http.StatusForbidden,
		"host.docker.internal":      http.StatusForbidden,
	}
	for host, status := range tests {
		t.Run(host, func(t *testing.T) {
			for _, path := range []string{"/mcp", "/healthz", "/nothing"} {
				c := list(t)
				c.host, c.path = host, path
				r := f.do(c)
				if status == http.StatusForbidden {
					require.Equal(t, status, r.status)
					require.Contains(t, r.body, "allowed hosts")
					continue
				}
				require.NotEqual(t, http.StatusForbidden, r.status)
			}
		})
	}
}

func TestHostOnUnixSocket(t *testing.T) {
	f := newFixture(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	go func() { _ = f.Serve(context.Background(), l) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.Addr().String())
	}}}
	t.Cleanup(client.CloseIdleConnections)
	for host, status := range map[string]int{"localhost": http.StatusOK, "evil.example": http.StatusForbidden} {
		req := f.request(t.Context(), list(t))
		req.Host = host
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode, host)
	}
}

func TestOriginIsChecked(t *testing.T) {
	f := newFixture(t, func(o *httpserver.Options) {
		o.AllowedHosts = []string{"sandbox.example.com"}
		o.AllowedOrigins = []string{"https://Agent.example.com:443/", "http://localhost:6274"}
	})
	tests := []struct {
		origin, host string
		status       int
	}{
		{f.url, "", http.StatusOK},
		{"https://sandbox.example.com", "sandbox.example.com:443", http.StatusOK},
		{"https://agent.example.com", "", http.StatusOK},
		{"http://localhost:6274", "", http.StatusOK},
		{"http://agent.example.com", "", http.StatusForbidden},
		{"https://agent.example.com:8443", "", http.StatusForbidden},
		{"https://evil.example", "", http.StatusForbidden},
		{"http://localhost:3000", "", http.StatusForbidden},
		{"http://localhost", "", http.StatusForbidden},
		{"null", "", http.StatusForbidden},
		{"", "", http.StatusForbidden}, // present and empty
		{"file://" + f.listenerAddr(), "", http.StatusForbidden},
	}
	for _, tt := range tests {
		t.Run(tt.origin, func(t *testing.T) {
			c := list(t)
			c.host = tt.host
			c.header["Origin"] = tt.origin
			r := f.do(c)
			require.Equal(t, tt.status, r.status, r.body)
			if tt.status == http.StatusForbidden {
				require.Contains(t, r.body, "allowed origins")
				require.Empty(t, r.header.Get("Access-Control-Allow-Origin"))
			}
		})
	}
}

func TestAllowedOriginGetsCORS(t *testing.T) {
	const origin = "https://agent.example.com"
	f := newFixture(t, func(o *httpserver.Options) { o.AllowedOrigins = []string{origin} })
	ask := func(origin string) reply {
		return f.do(call{method: http.MethodOptions, token: "-", header: map[string]string{
			"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,mcp-session-id",
		}})
	}
	r := ask(origin)
	require.Equal(t, http.StatusNoContent, r.status)
	require.Equal(t, origin, r.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "authorization,mcp-session-id", r.header.Get("Access-Control-Allow-Headers"))
	require.Equal(t, http.StatusForbidden, ask("https://evil.example").status)
	require.Equal(t, http.StatusUnauthorized, ask(f.url).status, "its own page asks no such question")

	c := list(t)
	c.header["Origin"] = origin
	r = f.do(c)
	require.Equal(t, http.StatusOK, r.status)
	require.Equal(t, origin, r.header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, r.header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id")
}

func TestTokenIsChecked(t *testing.T) {
	f := newFixture(t)
	tests := []struct {
		name, header string
		status       int
	}{
		{"good", "Bearer token-a", http.StatusOK},
		{"scheme in other letters", "bearer token-a", http.StatusOK},
		{"none", "", http.StatusUnauthorized},
		{"wrong", "Bearer token-c", http.StatusUnauthorized},
		{"empty", "Bearer ", http.StatusUnauthorized},
		{"another scheme", "Basic token-a", http.StatusUnauthorized},
		{"no scheme", "token-a", http.StatusUnauthorized},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodOptions, http.MethodHead} {
				c := list(t)
				c.method, c.token = method, "-"
				if tt.header != "" {
					c.header["Authorization"] = tt.header
				}
				r := f.do(c)
				if tt.status == http.StatusUnauthorized {
					require.Equal(t, http.StatusUnauthorized, r.status)
					require.Contains(t, r.header.Get("WWW-Authenticate"), "Bearer")
					continue
				}
				require.NotEqual(t, http.StatusUnauthorized, r.status)
			}
		})
	}
	t.Run("two headers", func(t *testing.T) {
		req := f.request(t.Context(), list(t))
		req.Header.Add("Authorization", "Bearer token-b")
		require.Equal(t, http.StatusUnauthorized, f.send(req).status)
	})
	t.Run("all wrong ones get one answer", func(t *testing.T) {
		c := list(t)
		c.token = "token-"
		almost := f.do(c)
		c.token = "quite different"
		require.Equal(t, almost.body, f.do(c).body)
	})
}

func TestRoutes(t *testing.T) {
	f := newFixture(t, func(o *httpserver.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics!")) })
	})
	tests := []struct {
		method, path, token string
		status              int
	}{
		{http.MethodGet, "/healthz", "-", http.StatusOK},
		{http.MethodHead, "/healthz", "-", http.StatusOK},
		{http.MethodPost, "/healthz", "-", http.StatusMethodNotAllowed},
		{http.MethodGet, "/readyz", "-", http.StatusOK},
		{http.MethodGet, "/metrics", "-", http.StatusUnauthorized},
		{http.MethodGet, "/metrics", "token-a", http.StatusOK},
		{http.MethodGet, "/", "token-a", http.StatusNotFound},
		{http.MethodPost, "/mcp/", "token-a", http.StatusNotFound},
		{http.MethodGet, "/.well-known/oauth-protected-resource", "-", http.StatusNotFound},
		{http.MethodPut, "/mcp", "token-a", http.StatusMethodNotAllowed},
	}
	for _, tt := range tests {
		r := f.do(call{method: tt.method, path: tt.path, token: tt.token})
		require.Equal(t, tt.status, r.status, tt.method+" "+tt.path)
	}
	without := newFixture(t)
	require.Equal(t, http.StatusNotFound, without.do(call{method: http.MethodGet, path: "/metrics"}).status)
}

func TestNewRefusesBadOptions(t *testing.T) {
	f := newFixture(t)
	good := httpserver.Options{MCP: f.mcpServer(), Auth: byToken{}}
	for want, change := range map[string]func(*httpserver.Options){
		"required":          func(o *httpserver.Options) { o.Auth = nil },
		"MCP and Auth":      func(o *httpserver.Options) { o.MCP = nil },
		"allowed origin":    func(o *httpserver.Options) { o.AllowedOrigins = []string{"agent.example.com"} },
		"write scheme:":     func(o *httpserver.Options) { o.AllowedOrigins = []string{"https://a.example/path"} },
		"allowed host":      func(o *httpserver.Options) { o.AllowedHosts = []string{"https://a.example"} },
		"belong together":   func(o *httpserver.Options) { o.TLSCert = "cert.pem" },
		"tls: certificate ": func(o *httpserver.Options) { o.TLSCert, o.TLSKey = "/no/cert.pem", "/no/key.pem" },
	} {
		opts := good
		change(&opts)
		_, err := httpserver.New(opts)
		require.ErrorContains(t, err, want)
	}
}

func TestTLS(t *testing.T) {
	cert, key := selfSigned(t)
	f := newFixture(t, func(o *httpserver.Options) { o.TLSCert, o.TLSKey = cert, key })
	f.url = "https://" + f.listenerAddr()
	f.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	require.Equal(t, http.StatusOK, f.do(list(t)).status)

	// HTTP/2: one stream is closed, the connection stays.
	p := f.wait(modern, "token-a", "", "x")
	p.abort()
	require.True(t, receive(t, f.ended).cancelled)
	f.wait(modern, "token-a", "", "y")
	f.shutdown()
	require.False(t, receive(t, f.ended).cancelled)
}
