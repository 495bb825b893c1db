package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/filters"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Labels of this backend's own, beside those in package session.
const (
	// labelImage is the reference a sandbox was asked for, kept over snapshots.
	labelImage = "mcp-sandbox.image"
	// labelBase is the ID of the image that a derived one was made of.
	labelBase = "mcp-sandbox.base"
	// labelGuest is the version of the guest in an image.
	labelGuest = "mcp-sandbox.guest"
	// labelExcluded lists, one a line, what a snapshot left out.
	labelExcluded = "mcp-sandbox.excluded"
)

// Values of session.LabelKind. An image that holds a snapshot is kindImage.
const (
	kindContainer = "container"
	kindVolume    = "volume"
	kindNetwork   = "network"
	kindImage     = "image"
	kindDerived   = "derived"
	// kindBuild is a container for a moment: a derived image is committed from
	// it, or it tells the host's addresses.
	kindBuild = "build"
)

var (
	installationPattern = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	sessionPattern      = regexp.MustCompile(`^s_[a-z2-7]{26}$`)
	snapshotPattern     = regexp.MustCompile(`^snap_[a-z2-7]{26}$`)
)

// labels gives an object all our labels. A commit copies those of its container
// and cannot drop one, so each is always set, if only to "", which counts as
// absent everywhere.
func (b *Backend) labels(kind string, extra map[string]string) map[string]string {
	all := map[string]string{
		session.LabelInstallation: b.opts.InstallationID,
		session.LabelKind:         kind,
		session.LabelCreated:      time.Now().UTC().Format(time.RFC3339),
		session.LabelSession:      "",
		session.LabelIncarnation:  "",
		session.LabelOwner:        "",
		session.LabelCall:         "",
		session.LabelSnapshot:     "",
		labelImage:                "",
		labelBase:                 "",
		labelGuest:                "",
		labelExcluded:             "",
	}
	maps.Copy(all, extra)
	return all
}

// ours makes a filter for this installation's objects that carry these labels.
func (b *Backend) ours(labels ...string) filters.Args {
	args := filters.NewArgs(filters.Arg("label", session.LabelInstallation+"="+b.opts.InstallationID))
	for i := 0; i+1 < len(labels); i += 2 {
		args.Add("label", labels[i]+"="+labels[i+1])
	}
	return args
}

// isOurs tells whether an object is this installation's and of that kind.
func (b *Backend) isOurs(labels map[string]string, kind string) bool {
	return labels[session.LabelInstallation] == b.opts.InstallationID && labels[session.LabelKind] == kind
}

// containerName holds the start of the session's ID, enough to find it by and
// far too little to know it: on a bridge the engine's name server tells a
// container the names of its neighbours.
func containerName(sessionID string, incarnation int) string {
	id := strings.TrimPrefix(sessionID, "s_")
	return fmt.Sprintf("mcp-sandbox-%s-%d", id[:min(len(id), 10)], incarnation)
}

func volumeName(sessionID string) string {
	return "mcp-sandbox-" + strings.TrimPrefix(sessionID, "s_")
}

func snapshotRef(snapshotID string) string { return "mcp-sandbox/snapshot:" + snapshotID }

// isSandbox tells whether labels and name agree that this is the container of a
// session's incarnation: a container that someone made from a snapshot carries
// labels too, but not these.
func (b *Backend) isSandbox(labels map[string]string, name, sessionID string, incarnation int) bool {
	return b.isOurs(labels, kindContainer) && labels[session.LabelSession] == sessionID &&
		labels[session.LabelIncarnation] == strconv.Itoa(incarnation) &&
		strings.TrimPrefix(name, "/") == containerName(sessionID, incarnation)
}

// digest makes n hex digits of many parts.
func digest(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])[:n]
}

func incarnationOf(labels map[string]string) int {
	n, err := strconv.Atoi(labels[session.LabelIncarnation])
	if err != nil {
		return 0
	}
	return n
}

func createdOf(labels map[string]string) time.Time {
	t, err := time.Parse(time.RFC3339, labels[session.LabelCreated])
	if err != nil {
		return time.Time{}
	}
	return t
}
