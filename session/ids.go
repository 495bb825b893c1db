package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// Prefixes of IDs.
const (
	sessionPrefix  = "s_"
	snapshotPrefix = "snap_"
	callPrefix     = "c_"
)

var (
	callIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	idPattern     = regexp.MustCompile(`^(s|snap)_[a-z2-7]{26}$`)
)

// NewCallID makes a call ID: time-ordered (UUIDv7) and unique.
func NewCallID() string {
	return callPrefix + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
}

// CheckCallID refuses a call ID that is not 1 to 128 of [A-Za-z0-9_-].
func CheckCallID(id string) error {
	if !callIDPattern.MatchString(id) {
		return Errorf(InvalidArgument, "_meta[%q] must be 1 to 128 characters of A-Z a-z 0-9 _ and -", MetaCallID)
	}
	return nil
}

// MakeSessionID derives a session's ID from the call that starts it, so that a
// retried start finds its session. Without the installation's secret nobody can
// guess one.
func MakeSessionID(secret []byte, owner, callID string) string {
	return sessionPrefix + mac(secret, owner, callID)
}

// MakeSnapshotID derives a snapshot's ID from its session's, which is secret,
// and the call that takes it.
func MakeSnapshotID(sessionID, callID string) string {
	return snapshotPrefix + mac([]byte(sessionID), callID)
}

// CheckSessionID refuses what cannot be a session's ID, in the words used for an
// unknown one: a caller learns nothing from the difference.
func CheckSessionID(id string) error {
	if !strings.HasPrefix(id, sessionPrefix) || !idPattern.MatchString(id) {
		return NoSession(id)
	}
	return nil
}

// CheckSnapshotID is CheckSessionID for snapshots.
func CheckSnapshotID(id string) error {
	if !strings.HasPrefix(id, snapshotPrefix) || !idPattern.MatchString(id) {
		return NoSnapshot(id)
	}
	return nil
}

// NoSession is the error for a session that is unknown or someone else's.
func NoSession(id string) *Error {
	return Errorf(NotFound, "no session %q; use start_session to make one, or list_sessions to see yours", clip(id, 64))
}

// NoSnapshot is the error for a snapshot that is unknown or someone else's.
func NoSnapshot(id string) *Error {
	return Errorf(NotFound, "no snapshot %q; list_snapshots shows yours", clip(id, 64))
}

func mac(key []byte, parts ...string) string {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:16]))
}

// clip cuts s to at most n bytes, for messages.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}
