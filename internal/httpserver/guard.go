package httpserver

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// checkHost refuses requests that name another host than this one. A web page
// whose name was rebound to our address sends its own name.
func (s *Server) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.hostAllowed(r) {
			s.opts.Logger.Warn("refused a request for another host", "host", r.Host, "remote", r.RemoteAddr)
			refuse(w, http.StatusForbidden, nil, "the Host %.80q is not this server's; call it by its address, or add the name to its allowed hosts", r.Host)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostAllowed takes an allowed host; the loopback names on loopback and on Unix
// sockets, with any port, as tunnels change it; and the address of ours that the
// connection came to. No name is taken on trust, whatever it resolves to.
func (s *Server) hostAllowed(r *http.Request) bool {
	hostPort := canonicalHost(r.Host)
	host := hostOnly(hostPort)
	if s.hosts[hostPort] || s.hosts[host] {
		return true
	}
	switch local := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		ours := local.AddrPort().Addr().Unmap().WithZone("")
		if ours.IsLoopback() {
			return isLoopback(host)
		}
		theirs, err := netip.ParseAddr(host)
		return err == nil && theirs.Unmap().WithZone("") == ours
	case *net.UnixAddr:
		return isLoopback(host)
	}
	return false
}

// checkOrigin refuses web pages, which alone send an Origin, unless they are
// allowed or this server's own. For those allowed it answers the browser's
// questions (CORS), which come without a token.
func (s *Server) checkOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		switch {
		case origin == "" && len(r.Header.Values("Origin")) == 0:
		case s.origins[strings.ToLower(origin)]:
			allowOrigin(w.Header(), origin)
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				preflight(w, r)
				return
			}
		case !sameOrigin(origin, r.Host):
			s.opts.Logger.Warn("refused a web page", "origin", origin, "remote", r.RemoteAddr)
			refuse(w, http.StatusForbidden, nil, "web pages of the Origin %.80q may not use this server; add it to its allowed origins", origin)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func allowOrigin(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate")
	h.Add("Vary", "Origin")
}

func preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	// The page is allowed, so whichever headers it wants are.
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

// sameOrigin compares host and port. The scheme is left out: behind a proxy
// that ends TLS this server cannot know its own.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return false
	}
	return withoutDefaultPort(u.Scheme, canonicalHost(u.Host)) == withoutDefaultPort(u.Scheme, canonicalHost(host))
}

func withoutDefaultPort(scheme, hostPort string) string {
	if scheme == "https" {
		return strings.TrimSuffix(hostPort, ":443")
	}
	return strings.TrimSuffix(hostPort, ":80")
}

// parseOrigins brings origins into the form that browsers send.
func parseOrigins(list []string) (map[string]bool, error) {
	origins := make(map[string]bool)
	for _, text := range list {
		u, err := url.Parse(strings.ToLower(text))
		if err != nil || u.Host == "" || u.Scheme == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
			return nil, fmt.Errorf("allowed origin %q: write scheme://host or scheme://host:port, such as https://agent.example.com", text)
		}
		origins[u.Scheme+"://"+withoutDefaultPort(u.Scheme, u.Host)] = true
	}
	return origins, nil
}

func parseHosts(list []string) (map[string]bool, error) {
	hosts := make(map[string]bool)
	for _, text := range list {
		host := canonicalHost(text)
		if host == "" || strings.ContainsAny(host, "/@* ") {
			return nil, fmt.Errorf("allowed host %q: write a name or name:port, such as sandbox.example.com", text)
		}
		hosts[host] = true
		if ip, err := netip.ParseAddr(host); err == nil {
			hosts[ip.String()] = true
		}
	}
	return hosts, nil
}

// canonicalHost lowers the letters and drops the dot at the end of a name.
func canonicalHost(hostPort string) string {
	hostPort = strings.ToLower(hostPort)
	if host, port, err := net.SplitHostPort(hostPort); err == nil {
		return net.JoinHostPort(strings.TrimSuffix(host, "."), port)
	}
	return strings.TrimSuffix(hostPort, ".")
}

// hostOnly drops the port, and the brackets of an IPv6 address.
func hostOnly(hostPort string) string {
	if host, _, err := net.SplitHostPort(hostPort); err == nil {
		return host
	}
	return strings.Trim(hostPort, "[]")
}

// isLoopback knows the names and addresses of loopback, and resolves none.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
