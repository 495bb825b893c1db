package filetree

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// Limits of one copy. Both sides hold them.
const (
	// MaxEntries bounds files, folders, links and notes together.
	MaxEntries = 100_000
	// MaxBytes bounds the contents of all files together: 16 GiB.
	MaxBytes = 16 << 30
	// MaxDepth bounds how deep folders lie in each other.
	MaxDepth = 256
	// MaxPath bounds a path within the tree and a link's target, MaxName one
	// name in it; both in bytes, as Linux has them.
	MaxPath = 4095
	MaxName = 255
)

// Type is what an entry is.
type Type string

// The types of entries. The last three are notes: they make nothing and say
// what the copy does not have.
const (
	File Type = "file"
	Dir  Type = "dir"
	Link Type = "symlink"
	// Skipped is left out by its nature: a device, a link that leads outside.
	Skipped Type = "skipped"
	// Unread is left out because it could not be read: the copy lacks content.
	Unread Type = "unread"
	// Altered is in the copy, but for something that its entry cannot carry.
	Altered Type = "altered"
)

// Entry is one line of a manifest.
type Entry struct {
	// Path is relative to the tree's root, which is "."; names are separated by
	// slashes.
	Path Text `json:"path"`
	Type Type `json:"type"`
	// Mode is the permission bits of a file or folder.
	Mode uint32 `json:"mode,omitempty"`
	// MTime is when a file or folder was changed, in nanoseconds since 1970.
	MTime int64 `json:"mtime,omitempty"`
	// Size and SHA256 (lower-case hex) are of a file's content.
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// Target is a link's.
	Target Text `json:"target,omitempty"`
	// Reason is a note's, for people.
	Reason string `json:"reason,omitempty"`
}

// Note tells whether the entry makes nothing.
func (e Entry) Note() bool { return e.Type == Skipped || e.Type == Unread || e.Type == Altered }

// Header is the first line of a manifest.
type Header struct {
	// Version is 1.
	Version int `json:"version"`
	// Name is what the tree is called in a folder that is there already; empty
	// puts the root's content there, without a folder of its own.
	Name Text `json:"name,omitempty"`
}

// Counts say what a copy holds.
type Counts struct {
	Files   int   `json:"files"`
	Dirs    int   `json:"dirs"`
	Links   int   `json:"links"`
	Bytes   int64 `json:"bytes"`
	Skipped int   `json:"skipped"`
	Unread  int   `json:"unread"`
	Altered int   `json:"altered"`
}

// Add counts an entry.
func (c *Counts) Add(e Entry) {
	switch e.Type {
	case File:
		c.Files++
		c.Bytes += e.Size
	case Dir:
		c.Dirs++
	case Link:
		c.Links++
	case Skipped:
		c.Skipped++
	case Unread:
		c.Unread++
	case Altered:
		c.Altered++
	}
}

// Text is a name as the kernel has it: bytes, which need not be UTF-8. In JSON
// it is a string, or {"base64": "..."} where a string could not hold it.
type Text string

type rawText struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(rawText{[]byte(t)})
}

// UnmarshalJSON implements json.Unmarshaler. It takes one form of each text
// alone, so that equal manifests have equal bytes.
func (t *Text) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*t = Text(s)
		return nil
	}
	var raw rawText
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if utf8.Valid(raw.Base64) {
		return errors.New("base64 of a text that is UTF-8")
	}
	*t = Text(raw.Base64)
	return nil
}

// String shows the text; one that is no UTF-8 quoted, with escapes.
func (t Text) String() string {
	if utf8.ValidString(string(t)) {
		return string(t)
	}
	return strconv.Quote(string(t))
}
