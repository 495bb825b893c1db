package datadir

import (
	"bytes"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"
)

const (
	installationFormat = 1
	secretBytes        = 32
	installationPrefix = "i_"
	hostPrefix         = "h_"
)

var idPattern = regexp.MustCompile(`^[ih]_[a-z2-7]{26}$`)

// installation is the content of installation.json.
type installation struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	HostID  string    `json:"host_id"`
	Secret  []byte    `json:"secret"` // base64
	Created time.Time `json:"created"`
}

// openInstallation reads the identity, and makes it if there is none. Of several
// processes that make it at once, one wins and all read the winner's.
func openInstallation(path string, now func() time.Time) (installation, error) {
	in, err := readInstallation(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return in, err
	}
	fresh, err := json.MarshalIndent(installation{
		Format:  installationFormat,
		ID:      randomID(installationPrefix),
		HostID:  randomID(hostPrefix),
		Secret:  randomBytes(secretBytes),
		Created: now().UTC().Truncate(time.Second),
	}, "", "  ")
	if err != nil {
		return installation{}, fmt.Errorf("data dir: %w", err)
	}
	if err := createOnce(path, append(fresh, '\n')); err != nil {
		return installation{}, err
	}
	return readInstallation(path)
}

func readInstallation(path string) (installation, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the path is ours
	if err != nil {
		return installation{}, fmt.Errorf("data dir: %w", err)
	}
	var in installation
	if err := json.Unmarshal(text, &in); err != nil {
		return installation{}, damaged(path, err)
	}
	if in.Format != installationFormat && in.Format != 0 {
		return installation{}, fmt.Errorf("%s has format %d, and this mcp-sandbox knows format %d only; use the version that wrote it, or give another --data-dir",
			path, in.Format, installationFormat)
	}
	if err := in.check(); err != nil {
		return installation{}, damaged(path, err)
	}
	return in, nil
}

func (in installation) check() error {
	switch {
	case in.Format == 0:
		return errors.New("format is missing")
	case !idPattern.MatchString(in.ID) || !strings.HasPrefix(in.ID, installationPrefix):
		return errors.New("id is missing or wrong")
	case !idPattern.MatchString(in.HostID) || !strings.HasPrefix(in.HostID, hostPrefix):
		return errors.New("host_id is missing or wrong")
	case len(in.Secret) != secretBytes || bytes.Equal(in.Secret, make([]byte, secretBytes)):
		return errors.New("secret is missing or wrong")
	}
	return nil
}

// damaged names the two ways out. There is no third: a new identity would not
// find the containers, sessions and snapshots of the old one.
func damaged(path string, cause error) error {
	return fmt.Errorf("%s is damaged (%w); put it back from a backup, or, to give up every session and snapshot of this data dir, "+
		"give another --data-dir and remove the containers, volumes and images labelled mcp-sandbox.installation", path, cause)
}

func randomID(prefix string) string {
	return prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(randomBytes(16)))
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, and ends the process if it did
	return b
}
