package temporaldev

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"go.temporal.io/server/common/authorization"
)

const (
	secretFile  = "temporal.secret"
	secretBytes = 32

	authorizationHeader = "authorization"
	bearerPrefix        = "Bearer "
)

// loadSecret reads the frontend's secret, or makes it on first use. It is 32
// random bytes as hex. A file that others could read is closed to them.
func loadSecret(path string) (string, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // the caller's own data dir
	if errors.Is(err, fs.ErrNotExist) {
		return newSecret(path)
	}
	if err != nil {
		return "", fmt.Errorf("temporal secret: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return "", fmt.Errorf("temporal secret: %w", err)
	}
	secret := strings.TrimSpace(string(raw))
	if decoded, err := hex.DecodeString(secret); err != nil || len(decoded) != secretBytes {
		return "", fmt.Errorf("temporal secret: %s does not hold %d bytes as hex: delete it and start again, a new one is made", path, secretBytes)
	}
	return secret, nil
}

func newSecret(path string) (string, error) {
	raw := make([]byte, secretBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("temporal secret: %w", err)
	}
	secret := hex.EncodeToString(raw)
	if err := writePrivate(path, []byte(secret+"\n")); err != nil {
		return "", fmt.Errorf("temporal secret: %w", err)
	}
	return secret, nil
}

// bearerClaims makes the one bearer an administrator and everybody else nobody:
// without claims the default authorizer lets only health checks through. It keeps
// the digest, which makes the comparison independent of the length sent.
type bearerClaims struct {
	want [sha256.Size]byte
}

func newBearerClaims(secret string) *bearerClaims {
	return &bearerClaims{want: sha256.Sum256([]byte(bearerPrefix + secret))}
}

// GetClaims implements authorization.ClaimMapper. A wrong bearer is no error: the
// server would log each one, and anybody on the machine can send them.
func (b *bearerClaims) GetClaims(info *authorization.AuthInfo) (*authorization.Claims, error) {
	got := sha256.Sum256([]byte(info.AuthToken))
	if subtle.ConstantTimeCompare(got[:], b.want[:]) == 1 {
		return &authorization.Claims{System: authorization.RoleAdmin}, nil
	}
	return nil, nil //nolint:nilnil // no claims, no error: the authorizer denies
}

// AuthInfoRequired lets calls without any header reach GetClaims too, so that they
// are refused by the same rule.
func (*bearerClaims) AuthInfoRequired() bool { return false }

// BearerHeaders sends a secret as the bearer with each call of an SDK client: it is
// for the field HeadersProvider of client.Options.
type BearerHeaders struct {
	secret string
}

// GetHeaders implements the SDK's HeadersProvider.
func (b BearerHeaders) GetHeaders(context.Context) (map[string]string, error) {
	return map[string]string{authorizationHeader: bearerPrefix + b.secret}, nil
}

// HeadersProvider gives the headers for a frontend that asks for secret.
func HeadersProvider(secret string) BearerHeaders { return BearerHeaders{secret: secret} }
