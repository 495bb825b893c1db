// Package datadir is the directory in which an installation keeps what must
// outlive its processes: who it is, its secret, the token of its owner.
//
// Entry points: Default for the usual place, Open for a Dir. Everybody below cmd
// may import it. It reads no environment, repairs nothing in silence and never
// replaces a file that it cannot read: a new identity would orphan every
// container, session and snapshot of the old one.
package datadir

import (
	"errors"
	"path/filepath"
)

// Names of the files that this package owns in a data dir.
const (
	lockFile         = "lock"
	tokenFile        = "token"
	installationFile = "installation.json"
)

// Default gives the usual place: $XDG_STATE_HOME/mcp-sandbox, or without that
// ~/.local/state/mcp-sandbox. A relative XDG_STATE_HOME is ignored, as the XDG
// base directory specification has it.
func Default(getenv func(string) string) (string, error) {
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "mcp-sandbox"), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("no place for the data dir: neither XDG_STATE_HOME nor HOME is an absolute path; set one, or give --data-dir")
	}
	return filepath.Join(home, ".local", "state", "mcp-sandbox"), nil
}
