// Package access tells who a caller is from the bearer token that it shows.
//
// Entry points: Anonymous, NewSingle and OpenTokenFile make an Authenticator;
// NewToken makes a token for a token file. cmd chooses one and gives it to
// internal/httpserver. Later kinds of proof, such as the tokens of an OAuth
// server, are further implementations: nobody else looks into a token. The
// package keeps no token in clear text beyond the comparison, logs none, and
// says nothing about why one was refused.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
)

// LocalOwner is the owner where there is one only: of a data dir's own token,
// and of a server without authentication.
const LocalOwner = "local"

// Authenticator finds the owner that a bearer token stands for. ok is false for
// every token that is not good now, without a reason. Implementations may be used
// concurrently, answer at once, and take no longer for a token that is nearly
// right.
type Authenticator interface {
	Owner(token string) (owner string, ok bool)
}

var ownerPattern = regexp.MustCompile(`^[A-Za-z0-9._@-]{1,64}$`)

// CheckOwner refuses what cannot be the name of an owner.
func CheckOwner(name string) error {
	if !ownerPattern.MatchString(name) {
		return fmt.Errorf("owner %.80q: a name is 1 to 64 characters of A-Z a-z 0-9 . _ @ -", name)
	}
	return nil
}

// Anonymous takes everybody, with any token or none, for LocalOwner.
type Anonymous struct{}

// Owner is always LocalOwner.
func (Anonymous) Owner(string) (string, bool) { return LocalOwner, true }

// NewToken makes a token of 32 random bytes in base64url, and the SHA-256 of it
// in hex, which is all that a token file holds. The hash needs neither salt nor
// stretching, as nobody guesses 256 bits.
func NewToken() (token, hashHex string) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails, and ends the process if it did
	token = base64.RawURLEncoding.EncodeToString(random)
	sum := sha256.Sum256([]byte(token))
	return token, hex.EncodeToString(sum[:])
}

// entry is a token by its hash, with its owner.
type entry struct {
	hash  [sha256.Size]byte
	owner string
}

// find looks token up. It compares with every entry, so that the time taken
// tells nothing about which one was near.
func find(entries []entry, token string) (owner string, ok bool) {
	if token == "" {
		return "", false
	}
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range entries {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], entries[i].hash[:]), i, found)
	}
	if found < 0 {
		return "", false
	}
	return entries[found].owner, true
}
