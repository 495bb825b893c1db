package httpserver

import (
	"net/http"
	"strings"
)

// authenticate lets through what shows a good token, and puts its owner into the
// request's context. One answer serves for every token that is not good.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := bearer(r.Header)
		owner, ok := s.opts.Auth.Owner(token)
		if ok {
			next.ServeHTTP(w, r.WithContext(withOwner(r.Context(), owner)))
			return
		}
		if token == "" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="mcp-sandbox"`)
			refuse(w, http.StatusUnauthorized, nil,
				"no token was sent; send the header Authorization: Bearer TOKEN (the server prints a client configuration with it when it starts)")
			return
		}
		s.opts.Logger.Warn("refused a token", "remote", r.RemoteAddr)
		w.Header().Set("WWW-Authenticate", `Bearer realm="mcp-sandbox", error="invalid_token"`)
		refuse(w, http.StatusUnauthorized, nil, "this token is not good here; use the one in the client configuration that the server prints when it starts")
	})
}

// bearer gives the token of an Authorization header, or "". Several headers are
// as good as none: which of them counts would be a guess.
func bearer(h http.Header) string {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
