package session

import "regexp"

// The operations on files.
var (
	ReadFile  = Operation[ReadFileIn, ReadFileOut]{"read_file"}
	WriteFile = Operation[WriteFileIn, WriteFileOut]{"write_file"}
	EditFile  = Operation[EditFileIn, EditFileOut]{"edit_file"}
)

// MaxInlineBytes is the largest content, decoded, that a call carries.
const MaxInlineBytes = 256 << 10

// MaxLineBytes is where read_file cuts a line.
const MaxLineBytes = 16 << 10

// ReadFileIn reads lines of a file.
type ReadFileIn struct {
	Path     string `json:"path" minLength:"1" maxLength:"4096" jsonschema:"Relative paths start at the working directory."`
	Offset   int    `json:"offset,omitempty" jsonschema:"First line, from 1; negative counts from the end."`
	Limit    int    `json:"limit,omitempty" minimum:"1" maximum:"100000" default:"2000" jsonschema:"Lines at most."`
	Encoding string `json:"encoding,omitempty" enum:"utf-8,base64" jsonschema:"base64 gives the exact bytes. Default: utf-8, base64 where the file is not."`
}

// Validate checks what the field tags cannot say.
func (in ReadFileIn) Validate() error { return noNUL("path", in.Path) }

// ReadFileOut is a file's content.
type ReadFileOut struct {
	Path       string `json:"path" jsonschema:"Absolute, links resolved."`
	Content    string `json:"content"`
	Encoding   string `json:"encoding" enum:"utf-8,utf-8-lossy,base64"`
	Size       int64  `json:"size" jsonschema:"Of the file, in bytes."`
	TotalLines int    `json:"total_lines" jsonschema:"-1 where the file is too large to count."`
	StartLine  int    `json:"start_line"`
	EndLine    int    `json:"end_line"`
	Truncated  bool   `json:"truncated" jsonschema:"Lines or parts of lines were left out."`
	SHA256     string `json:"sha256" jsonschema:"Of the whole file, for expected_sha256; empty above 64 MiB."`
	Mode       string `json:"mode"`
}

var (
	modePattern   = regexp.MustCompile(`^0?[0-7]{3}$`)
	sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// WriteFileIn replaces or appends to a file.
type WriteFileIn struct {
	Path           string `json:"path" minLength:"1" maxLength:"4096" jsonschema:"Relative paths start at the working directory; missing directories are made."`
	Content        string `json:"content" maxLength:"349528" tooLong:"write the first part, then the rest with append: true" jsonschema:"At most 256 KiB decoded; send more in parts with append."`
	Encoding       string `json:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
	Mode           string `json:"mode,omitempty" jsonschema:"Such as 0755. Default: kept, 0644 for a new file."`
	Append         bool   `json:"append,omitempty" jsonschema:"Add to the end instead of replacing."`
	ExpectedSHA256 string `json:"expected_sha256,omitempty" jsonschema:"Write only if the file still has this hash."`
}

// Validate checks what the field tags cannot say.
func (in WriteFileIn) Validate() error {
	if err := noNUL("path", in.Path); err != nil {
		return err
	}
	if in.Mode != "" && !modePattern.MatchString(in.Mode) {
		return Errorf(InvalidArgument, "mode: %q is not three octal digits such as 0644", clip(in.Mode, 16))
	}
	if in.ExpectedSHA256 != "" && !sha256Pattern.MatchString(in.ExpectedSHA256) {
		return Errorf(InvalidArgument, "expected_sha256: want 64 lower-case hex digits, as read_file gives them")
	}
	b, err := Decode("content", in.Content, in.Encoding)
	if err == nil && len(b) > MaxInlineBytes {
		return Errorf(InvalidArgument, "content: %d bytes; at most %d go in one call: write the first part, then the rest with append: true", len(b), MaxInlineBytes)
	}
	return err
}

// WriteFileOut describes the written file.
type WriteFileOut struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Created bool   `json:"created"`
}

// EditFileIn replaces literal text in a file.
type EditFileIn struct {
	Path       string `json:"path" minLength:"1" maxLength:"4096"`
	OldStr     string `json:"old_str" minLength:"1" maxLength:"131072" tooLong:"choose less text that is still unique" jsonschema:"Literal text to find; must occur exactly once unless replace_all."`
	NewStr     string `json:"new_str" maxLength:"131072" tooLong:"insert it in parts, or write the file anew" jsonschema:"Literal text in its place."`
	ReplaceAll bool   `json:"replace_all,omitempty"`
}

// Validate checks what the field tags cannot say.
func (in EditFileIn) Validate() error {
	if in.OldStr == in.NewStr {
		return Errorf(InvalidArgument, "new_str: it equals old_str, so there is nothing to change")
	}
	return noNUL("path", in.Path)
}

// EditFileOut describes the edit.
type EditFileOut struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
	SHA256       string `json:"sha256"`
	Diff         string `json:"diff" jsonschema:"Unified diff of the change."`
}
