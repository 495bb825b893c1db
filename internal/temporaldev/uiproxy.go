package temporaldev

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// onceParam marks the second try of a page that came without its cookie.
const onceParam = "mcp-sandbox-retry"

// Handler serves the UI to those who hold a token that auth accepts; auth is asked on
// every request and must compare in constant time. A browser comes with a link,
// /?token=..., is given a cookie (12 h, this process only) and sent to the same page
// without the token; programs send Authorization: Bearer. Everyone else gets 401.
//
// Host must be localhost or the listener's own address, against DNS rebinding, and a
// request that changes something must come from the UI's own pages or from no
// browser. Towards the frontend the token is replaced by the secret.
func (u *UI) Handler(auth func(token string) bool) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !ownHost(r):
			refuse(w, http.StatusForbidden, "This address is not served here. Open the link with 127.0.0.1 or localhost.")
			return
		case origin.Check(r) != nil:
			refuse(w, http.StatusForbidden, "Requests from other sites are refused.")
			return
		}
		if token, ok := linkToken(r); ok {
			u.enter(w, r, token, auth)
			return
		}
		if !u.admitted(r, auth) {
			unauthorized(w, r)
			return
		}
		u.pages.ServeHTTP(w, u.upstream(r))
	})
}

// ownHost allows localhost, loopback addresses and the address the request came in
// on. A name under somebody else's control is none of these; a port says nothing
// (it differs behind ssh -L).
func ownHost(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	if ip == nil {
		return false
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ip.IsLoopback() || local != nil && local.IP.Equal(ip)
}

// linkToken is the token of a link that is opened. It may not be part of anything
// that changes state.
func linkToken(r *http.Request) (string, bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return "", false
	}
	query := r.URL.Query()
	return query.Get("token"), query.Has("token")
}

// enter exchanges the token of a link for a cookie, so that it stays neither in the
// address bar nor in the history.
func (u *UI) enter(w http.ResponseWriter, r *http.Request, token string, auth func(string) bool) {
	if !auth(token) {
		unauthorized(w, r)
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // plain HTTP on loopback: Secure would lose it
		Name:     uiCookieName(r),
		Value:    u.cookie.seal(token, time.Now().Add(cookieLife)),
		Path:     "/",
		MaxAge:   int(cookieLife.Seconds()),
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
	query := r.URL.Query()
	query.Del("token")
	protect(w)
	w.Header().Set("Location", samePath(r, query))
	w.WriteHeader(http.StatusSeeOther)
}

// samePath is the page asked for with another query. It has one leading slash:
// "//host/" would lead elsewhere.
func samePath(r *http.Request, query url.Values) string {
	target := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: query.Encode()}
	return target.String()
}

func (u *UI) admitted(r *http.Request, auth func(string) bool) bool {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), bearerPrefix); ok && auth(token) {
		return true
	}
	for _, cookie := range r.CookiesNamed(uiCookieName(r)) {
		if token, ok := u.cookie.open(cookie.Value, time.Now()); ok && auth(token) {
			return true
		}
	}
	return false
}

// upstream is the request as the UI server sees it: the secret in place of whatever
// the caller showed.
func (u *UI) upstream(r *http.Request) *http.Request {
	out := r.Clone(r.Context())
	own := uiCookieName(r)
	out.Header.Del("Cookie")
	for _, cookie := range r.Cookies() {
		if cookie.Name != own {
			out.AddCookie(cookie)
		}
	}
	for name := range out.Header { // the gateway makes gRPC metadata of these
		if strings.HasPrefix(name, "Grpc-Metadata-") {
			out.Header.Del(name)
		}
	}
	out.Header.Del("Authorization-Extras")
	out.Header.Del("Authorization")
	if u.secret != "" {
		out.Header.Set("Authorization", bearerPrefix+u.secret)
	}
	return out
}

// unauthorized says how to get in. A page of another site that links here (or to the
// link with the token) makes the browser hold back the strict cookie; going on from
// our own page brings it. That is tried once.
func unauthorized(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		r.Method == http.MethodGet && !query.Has("token") && !query.Has(onceParam) {
		query.Set(onceParam, "1")
		w.Header().Set("Refresh", "0; url="+samePath(r, query))
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="mcp-sandbox"`)
	refuse(w, http.StatusUnauthorized, "This is the Temporal UI of mcp-sandbox, and it needs a token.\n"+
		"Open the UI link that `mcp-sandbox serve` prints when it starts; it contains the token.")
}

func refuse(w http.ResponseWriter, status int, text string) {
	protect(w)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // the client is gone: nothing to do
}

// protect keeps our own answers out of caches, frames and referrers.
func protect(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}
