package session

// The operations on snapshots.
var (
	TakeSnapshot    = Operation[SnapshotIn, SnapshotOut]{"snapshot"}
	ListSnapshots   = Operation[ListSnapshotsIn, ListSnapshotsOut]{"list_snapshots"}
	DeleteSnapshot  = Operation[DeleteSnapshotIn, DeleteSnapshotOut]{"delete_snapshot"}
	RestoreSnapshot = Operation[RestoreSnapshotIn, RestoreSnapshotOut]{"restore_snapshot"}
)

// SnapshotIn keeps the sandbox's files.
type SnapshotIn struct {
	Name string `json:"name,omitempty" maxLength:"128" jsonschema:"A label; need not be unique."`
}

// Validate checks what the field tags cannot say.
func (in SnapshotIn) Validate() error { return checkLabel("name", in.Name) }

// SnapshotOut describes a snapshot.
type SnapshotOut struct {
	SnapshotID        string   `json:"snapshot_id"`
	Name              string   `json:"name"`
	SizeBytes         int64    `json:"size_bytes" jsonschema:"Of its whole image, the shared layers included."`
	Excluded          []string `json:"excluded" jsonschema:"Places whose files are not in it."`
	ProcessesCaptured bool     `json:"processes_captured" jsonschema:"Always false: files only."`
	CreatedAt         string   `json:"created_at"`
}

// ListSnapshotsIn asks for one's snapshots.
type ListSnapshotsIn struct {
	SessionID string `json:"session_id,omitempty" maxLength:"64" jsonschema:"Only those taken of this session."`
}

// ListSnapshotsOut lists snapshots, newest first.
type ListSnapshotsOut struct {
	Snapshots []SnapshotInfo `json:"snapshots"`
}

// SnapshotInfo describes a snapshot in a listing.
type SnapshotInfo struct {
	SnapshotID string   `json:"snapshot_id"`
	Name       string   `json:"name"`
	SessionID  string   `json:"session_id" jsonschema:"The session it was taken of."`
	Parent     string   `json:"parent,omitempty" jsonschema:"The snapshot that session was made from."`
	SizeBytes  int64    `json:"size_bytes"`
	Excluded   []string `json:"excluded"`
	CreatedAt  string   `json:"created_at"`
	ExpiresAt  string   `json:"expires_at,omitempty"`
}

// DeleteSnapshotIn deletes a snapshot.
type DeleteSnapshotIn struct {
	SnapshotID string `json:"snapshot_id" minLength:"1" maxLength:"64"`
}

// DeleteSnapshotOut confirms a deletion.
type DeleteSnapshotOut struct {
	SnapshotID string `json:"snapshot_id"`
}

// RestoreSnapshotIn sets the sandbox's files back.
type RestoreSnapshotIn struct {
	SnapshotID string `json:"snapshot_id" minLength:"1" maxLength:"64" jsonschema:"Files since then are lost and running commands end."`
}

// RestoreSnapshotOut confirms a restore.
type RestoreSnapshotOut struct {
	SessionID  string `json:"session_id"`
	Status     string `json:"status"`
	SnapshotID string `json:"snapshot_id"`
}

// SnapshotRecord is the answer of QueryStatus on a snapshot: what a host needs
// to use it.
type SnapshotRecord struct {
	// Found is false when the asker does not own it, or it was deleted.
	Found     bool         `json:"found"`
	Info      SnapshotInfo `json:"info"`
	HostQueue string       `json:"host_queue"`
	HostID    string       `json:"host_id"`
	Image     string       `json:"image"` // the reference its session was started with
}
