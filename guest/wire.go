package guest

// ProtocolVersion is the newest protocol this package speaks. A server and a
// guest agree on the lower of their two versions, never below MinProtocol.
const (
	ProtocolVersion = 2
	MinProtocol     = 1
)

// Limits that the guest enforces on every request, whatever the caller says.
const (
	// MaxInline is the largest body, in decoded bytes, a request or an answer
	// carries: 256 KiB.
	MaxInline = 256 << 10
	// MaxTimeoutMS is the longest a command may be given: 24 h.
	MaxTimeoutMS = 24 * 3600 * 1000
	// MaxWaitMS is the longest one request waits: 60 s. Callers ask again.
	MaxWaitMS = 60_000
)

// Fence names the container a request is meant for. The guest refuses a
// request with another one (CodeFenced), so that a worker that wakes up late
// cannot touch a sandbox that was restored meanwhile.
type Fence struct {
	// Session is the session's ID, the same over all incarnations.
	Session string `json:"session"`
	// Incarnation counts the containers of a session, from 1.
	Incarnation int `json:"incarnation"`
}

// Hello is the guest's answer to the opening request on a connection.
type Hello struct {
	Protocol    int    `json:"protocol"`
	Version     string `json:"version"`
	Session     string `json:"session"`
	Incarnation int    `json:"incarnation"`
	// BootID changes each time the guest starts.
	BootID string `json:"boot_id"`
}

// Status is what has become of a command.
type Status string

// The statuses of a command. All but StatusRunning are final.
const (
	StatusRunning  Status = "running"
	StatusExited   Status = "exited"
	StatusTimedOut Status = "timed_out"
	StatusStopped  Status = "stopped"
	// StatusLost says that the guest or its container died while the command
	// ran: how it ended cannot be known.
	StatusLost Status = "lost"
)

// Final tells whether a command with this status has ended.
func (s Status) Final() bool { return s != StatusRunning && s != "" }

// RunRequest starts a command, or finds the one that CallID started before,
// and waits for its end up to WaitMS.
type RunRequest struct {
	CallID string `json:"call_id"`
	// Command is shell text, run as by `/bin/bash -c` (`/bin/sh` where there
	// is no bash); at most MaxInline, not bound by the argument limit.
	Command string `json:"command"`
	// Cwd is relative to the working directory; empty is the working directory.
	Cwd string            `json:"cwd,omitempty"`
	Env map[string]string `json:"env,omitempty"`
	// Stdin is what the command reads. Without it and without KeepStdin its
	// stdin is at its end from the start.
	Stdin []byte `json:"stdin,omitempty"`
	// KeepStdin leaves stdin open for Input requests.
	KeepStdin bool `json:"keep_stdin,omitempty"`
	// TimeoutMS ends the command's whole tree after that time; 0 is never.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// WaitMS is how long to wait for the end; 0 answers at once.
	WaitMS int64 `json:"wait_ms,omitempty"`
	// MaxOutput is how many bytes of each stream the answer carries, half of
	// them from its head and half from its tail; at most MaxInline.
	MaxOutput int `json:"max_output"`
	// ArgsDigest identifies the call's arguments: the same CallID with another
	// digest is refused (CodeInvalid).
	ArgsDigest string `json:"args_digest"`
}

// Stream is one output stream, cut to head and tail.
type Stream struct {
	Head []byte `json:"head,omitempty"`
	Tail []byte `json:"tail,omitempty"`
	// Total counts the bytes the command wrote.
	Total int64 `json:"total"`
	// Logged counts the bytes the log holds; less than Total when the log's
	// cap was reached. What was cut is the end.
	Logged int64 `json:"logged"`
}

// Cut tells whether bytes lie between Head and Tail that are not in them.
func (s Stream) Cut() bool { return int64(len(s.Head)+len(s.Tail)) < s.Total }

// Command is the state of one command.
type Command struct {
	CallID string `json:"call_id"`
	Status Status `json:"status"`
	// ExitCode is set when the command's first process exited by itself.
	ExitCode *int `json:"exit_code,omitempty"`
	// Signal is the name without SIG of the signal that ended it.
	Signal string `json:"signal,omitempty"`
	// OOMKilled says that the memory limit killed a process of the tree.
	OOMKilled bool `json:"oom_killed,omitempty"`
	// OutputHeld says that the command has ended while a descendant lives on
	// that still has its output open: the streams may grow. Stop ends it.
	OutputHeld bool `json:"output_held,omitempty"`
	// StartError is for guests that report a failed start as a command. The
	// supervisor answers Run with an Error instead, now and for every repeat.
	StartError string `json:"start_error,omitempty"`
	Stdout     Stream `json:"stdout"`
	Stderr     Stream `json:"stderr"`
	// StartedUnixMS and EndedUnixMS are wall-clock times of the guest.
	StartedUnixMS int64 `json:"started_unix_ms"`
	EndedUnixMS   int64 `json:"ended_unix_ms,omitempty"`
	// RunningMS is how long a running command has run, by the guest's clock. Only
	// Run tells.
	RunningMS int64 `json:"running_ms,omitempty"`
}

// CommandInfo describes a command without its output.
type CommandInfo struct {
	CallID        string `json:"call_id"`
	Command       string `json:"command"` // its first 200 bytes
	Status        Status `json:"status"`
	StartedUnixMS int64  `json:"started_unix_ms"`
}

// StreamName names an output stream.
type StreamName string

// The output streams of a command.
const (
	Stdout StreamName = "stdout"
	Stderr StreamName = "stderr"
)

// OutputRequest reads a slice of a stream.
type OutputRequest struct {
	CallID string     `json:"call_id"`
	Stream StreamName `json:"stream"`
	// Offset is in bytes; negative counts from the end.
	Offset   int64 `json:"offset"`
	MaxBytes int   `json:"max_bytes"`
	// WaitMS waits for bytes past Offset, or the command's end.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

// OutputChunk answers an OutputRequest.
type OutputChunk struct {
	Command Command `json:"command"` // without Head and Tail
	Offset  int64   `json:"offset"`
	Data    []byte  `json:"data,omitempty"`
	// EOF says that the command has ended and Data reaches the stream's end as
	// it is now; Command.OutputHeld that more may come even so.
	EOF bool `json:"eof"`
}

// InputRequest writes to the stdin of a command that was started with
// KeepStdin. What the command does not read yet waits, up to 1 MiB in all
// (CodeExhausted, nothing written). Journalled: the same CallID writes once.
type InputRequest struct {
	CallID     string `json:"call_id"`
	CommandID  string `json:"command_id"`
	Data       []byte `json:"data,omitempty"`
	Close      bool   `json:"close,omitempty"`
	ArgsDigest string `json:"args_digest"`
}

// InputResult answers an InputRequest.
type InputResult struct {
	Written int `json:"written"`
}

// StopRequest signals every process of a command's tree. TERM (the default),
// which KILL follows after GraceMS, and KILL end the tree, what an ended command
// left running included, and are answered when it is gone: the status is
// stopped, unless the command had ended before. Other signals are only sent; the
// answer, within a second, has the status stopped if that signal killed the
// command, exited if it handled it and ended, else running. Journalled.
type StopRequest struct {
	CallID    string `json:"call_id"`
	CommandID string `json:"command_id"`
	// Signal is a name without SIG; empty is TERM.
	Signal string `json:"signal,omitempty"`
	// GraceMS is 0 for the default, 2 s.
	GraceMS    int64  `json:"grace_ms,omitempty"`
	ArgsDigest string `json:"args_digest"`
}

// RefuseRequest asks the guest to never carry out a call ID.
type RefuseRequest struct {
	CallID string `json:"call_id"`
}

// RefuseResult tells whether the refusal holds.
type RefuseResult struct {
	// Refused is false when the call had begun before: then it stands.
	Refused bool `json:"refused"`
}

// ReadFileRequest reads lines of a regular file, as the sandbox user.
type ReadFileRequest struct {
	Path string `json:"path"`
	// StartLine is the first line, from 1; negative counts from the end; 0 is 1.
	StartLine int `json:"start_line,omitempty"`
	// MaxLines is 0 for all that fit.
	MaxLines int `json:"max_lines,omitempty"`
	// MaxBytes bounds the content; at most MaxInline.
	MaxBytes int `json:"max_bytes"`
	// MaxLineBytes cuts longer lines, which LinesCut counts; 0 cuts none.
	MaxLineBytes int `json:"max_line_bytes,omitempty"`
	// Whole asks for the whole file or CodeTooLarge.
	Whole bool `json:"whole,omitempty"`
}

// File answers a ReadFileRequest.
type File struct {
	// Path is absolute, links in it resolved as the reader sees it.
	Path    string `json:"path"`
	Content []byte `json:"content"`
	Size    int64  `json:"size"`
	// TotalLines is -1 when the file is too large to count within the bounds.
	TotalLines int `json:"total_lines"`
	StartLine  int `json:"start_line"`
	EndLine    int `json:"end_line"`
	// Truncated says that lines after EndLine, or parts of lines, were left out.
	Truncated bool `json:"truncated"`
	LinesCut  int  `json:"lines_cut,omitempty"`
	// SHA256 is of the whole file, in hex; empty where that would read more
	// than 64 MiB.
	SHA256 string `json:"sha256,omitempty"`
	Mode   uint32 `json:"mode"` // permission bits
}

// WriteFileRequest replaces a file atomically or appends to it, as the sandbox
// user. Parents are made. Journalled.
type WriteFileRequest struct {
	CallID  string `json:"call_id"`
	Path    string `json:"path"`
	Content []byte `json:"content"`
	// Mode is 0 to keep an existing file's mode, and 0644 for a new one.
	Mode   uint32 `json:"mode,omitempty"`
	Append bool   `json:"append,omitempty"`
	// ExpectedSHA256 refuses the write (CodeConflict) when the file differs.
	ExpectedSHA256 string `json:"expected_sha256,omitempty"`
	ArgsDigest     string `json:"args_digest"`
}

// WriteResult answers a WriteFileRequest.
type WriteResult struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Created bool   `json:"created"`
}

// EditFileRequest replaces literal text in a file atomically, as the sandbox
// user. Journalled.
type EditFileRequest struct {
	CallID     string `json:"call_id"`
	Path       string `json:"path"`
	OldStr     string `json:"old_str"`
	NewStr     string `json:"new_str"`
	ReplaceAll bool   `json:"replace_all,omitempty"`
	ArgsDigest string `json:"args_digest"`
}

// EditResult answers an EditFileRequest.
type EditResult struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
	SHA256       string `json:"sha256"`
	// Diff is a unified diff with three lines of context, cut at 16 KiB.
	Diff string `json:"diff"`
}

// Usage is what a sandbox uses now.
type Usage struct {
	// Running lists running commands, oldest first.
	Running []CommandInfo `json:"running"`
	// MemoryBytes and PIDs are of the whole sandbox, the guest included.
	MemoryBytes      int64   `json:"memory_bytes"`
	MemoryLimitBytes int64   `json:"memory_limit_bytes"`
	CPUSeconds       float64 `json:"cpu_seconds"`
	PIDs             int     `json:"pids"`
	PIDsLimit        int     `json:"pids_limit"`
	// DiskBytes is what the journal and the logs use.
	DiskBytes int64 `json:"disk_bytes"`
}
