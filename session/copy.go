package session

// The operations of `mcp-sandbox cp`. They are no tools. Contents travel through
// the blob store, by digest: a call and its history hold digests and counts.
var (
	CopyIn  = Operation[CopyInIn, CopyInOut]{"copy_in"}
	CopyOut = Operation[CopyOutIn, CopyOutOut]{"copy_out"}
)

// CopyInIn makes a tree in the sandbox.
type CopyInIn struct {
	// Path is where to, as for cp; relative paths start at the working directory,
	// which an empty one is.
	Path string `json:"path,omitempty" maxLength:"4095"`
	// Manifest is the digest of the tree's manifest (package filetree) in the blob
	// store, where its contents are too.
	Manifest string `json:"manifest" minLength:"1"`
	// Files and Bytes are the manifest's, for those who read the history.
	Files int   `json:"files" minimum:"0"`
	Bytes int64 `json:"bytes" minimum:"0"`
}

// Validate checks what the field tags cannot say.
func (in CopyInIn) Validate() error {
	if !sha256Pattern.MatchString(in.Manifest) {
		return Errorf(InvalidArgument, "manifest: want 64 lower-case hex digits")
	}
	return noNUL("path", in.Path)
}

// CopyCounts say what a copy holds, and how many things it lacks: skipped by
// their nature, unread because they could not be read, altered for bits that are
// not kept.
type CopyCounts struct {
	Files   int   `json:"files"`
	Dirs    int   `json:"dirs"`
	Links   int   `json:"links"`
	Bytes   int64 `json:"bytes"`
	Skipped int   `json:"skipped,omitempty"`
	Unread  int   `json:"unread,omitempty"`
	Altered int   `json:"altered,omitempty"`
}

// CopyInOut says what was made.
type CopyInOut struct {
	// Path is where the tree is now, absolute.
	Path string `json:"path"`
	CopyCounts
}

// CopyOutIn reads a tree in the sandbox.
type CopyOutIn struct {
	// Path is as for cp; empty is the working directory.
	Path string `json:"path,omitempty" maxLength:"4095"`
}

// Validate checks what the field tags cannot say.
func (in CopyOutIn) Validate() error { return noNUL("path", in.Path) }

// CopyOutOut says what was read.
type CopyOutOut struct {
	// Manifest is the digest of the tree's manifest in the blob store.
	Manifest string `json:"manifest"`
	CopyCounts
}

// CopyProgress is the heartbeat of a copy's activity. Zero totals are unknown.
type CopyProgress struct {
	CallID string `json:"call_id"`
	// Phase is one of the CopyPhase constants.
	Phase      string `json:"phase"`
	Files      int64  `json:"files"`
	Bytes      int64  `json:"bytes"`
	TotalFiles int64  `json:"total_files,omitempty"`
	TotalBytes int64  `json:"total_bytes,omitempty"`
}

func (p CopyProgress) call() string { return p.CallID }

// The phases of a copy in the worker.
const (
	CopySending   = "sending"   // contents go to the sandbox
	CopyApplying  = "applying"  // the sandbox makes the tree of them
	CopyReceiving = "receiving" // contents come from the sandbox
)
