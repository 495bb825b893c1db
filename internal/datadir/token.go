package datadir

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

const (
	tokenBytes    = 32
	minTokenChars = 32
)

// Token gives the bearer token of the data dir's owner: 32 random bytes in
// base64url, made on first use (0600). Each call reads the file again, so a
// removed one makes a new token, and a token of one's own (at least 32 printable
// characters) counts once it is written there.
func (d *Dir) Token() (string, error) {
	path := d.Path(tokenFile)
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	fresh := base64.RawURLEncoding.EncodeToString(randomBytes(tokenBytes))
	if err := createOnce(path, []byte(fresh+"\n")); err != nil {
		return "", err
	}
	return readToken(path)
}

func readToken(path string) (string, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the path is ours
	if err != nil {
		return "", fmt.Errorf("data dir: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minTokenChars || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s is damaged (a token is at least %d printable characters on one line); remove it, and a new one is made", path, minTokenChars)
	}
	return token, nil
}
