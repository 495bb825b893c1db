package temporaldev

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"net"
	"net/http"
	"time"
)

const (
	cookieName = "mcp-sandbox-ui"
	// cookieLife ends a forgotten browser's access; the link opens it again.
	cookieLife = 12 * time.Hour
)

// sealer hides a token in a cookie value. A browser sends the cookies of 127.0.0.1
// to every port there, another user's server included, so the value must not hold
// the token, which opens more than the UI. It is the token and an expiry encrypted
// under a key of this process: the token can be checked again on each request, and
// a restart makes all cookies void.
type sealer struct {
	aead cipher.AEAD
}

func newSealer() (*sealer, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &sealer{aead: aead}, nil
}

func (s *sealer) seal(token string, expires time.Time) string {
	plain := binary.BigEndian.AppendUint64(nil, uint64(expires.Unix())) //nolint:gosec // after 1970
	sealed := s.aead.Seal(nil, nil, append(plain, token...), nil)       //nolint:gosec // it makes its own nonce
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// open gives the token of a value that seal made and that has not expired.
func (s *sealer) open(value string, now time.Time) (token string, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return "", false
	}
	plain, err := s.aead.Open(nil, nil, sealed, nil)
	if err != nil || len(plain) < 8 {
		return "", false
	}
	expires := time.Unix(int64(binary.BigEndian.Uint64(plain)), 0) //nolint:gosec // seal wrote it
	return string(plain[8:]), now.Before(expires)
}

// uiCookieName tells the UIs on one machine apart: browsers keep cookies per host,
// not per port.
func uiCookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return cookieName + "-" + port
	}
	return cookieName
}
