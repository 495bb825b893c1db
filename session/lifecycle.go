package session

import "regexp"

// The operations on sessions.
var (
	StartSession = Operation[StartSessionIn, StartSessionOut]{"start_session"}
	ListSessions = Operation[ListSessionsIn, ListSessionsOut]{"list_sessions"}
	GetSession   = Operation[GetSessionIn, GetSessionOut]{"get_session"}
	EndSession   = Operation[EndSessionIn, EndSessionOut]{"end_session"}
)

// Statuses of a session.
const (
	StatusStarting  = "starting"
	StatusRunning   = "running"
	StatusSuspended = "suspended"
	StatusLost      = "lost"
	StatusEnding    = "ending"
	StatusEnded     = "ended"
)

// Networks a sandbox can have.
const (
	NetworkNone = "none"
	NetworkFull = "full"
)

// What happens when a sandbox is lost.
const (
	// OnLossRestore brings the session back from its latest snapshot, if any.
	OnLossRestore = "restore"
	// OnLossFail leaves it lost.
	OnLossFail = "fail"
)

// Defaults of sessions.
const (
	DefaultMemoryMB           = 2048
	DefaultCPUs               = 2.0
	DefaultIdleTimeoutSeconds = 1800
	DefaultMaxLifetimeSeconds = 86400
)

// StartSessionIn describes the session to start.
type StartSessionIn struct {
	Name               string            `json:"name,omitempty" maxLength:"128" jsonschema:"A label; need not be unique."`
	Image              string            `json:"image,omitempty" maxLength:"255" jsonschema:"Docker image with a shell. Default: Debian with bash, python3, git, curl, ripgrep."`
	SnapshotID         string            `json:"snapshot_id,omitempty" maxLength:"64" jsonschema:"Start from this snapshot instead of an image (a fork)."`
	Env                map[string]string `json:"env,omitempty" jsonschema:"Environment variables for every command."`
	Network            string            `json:"network,omitempty" enum:"none,full" default:"none"`
	MemoryMB           int               `json:"memory_mb,omitempty" minimum:"16" maximum:"1048576" default:"2048" jsonschema:"Memory limit in MiB."`
	CPUs               float64           `json:"cpus,omitempty" minimum:"0.05" maximum:"256" default:"2"`
	IdleTimeoutSeconds int               `json:"idle_timeout_seconds,omitempty" minimum:"1" maximum:"604800" default:"1800" jsonschema:"Seconds without a call or a running command after which the session ends."`
	MaxLifetimeSeconds int               `json:"max_lifetime_seconds,omitempty" minimum:"1" maximum:"2592000" default:"86400" jsonschema:"Seconds after which the session ends in any case."`
	OnLoss             string            `json:"on_loss,omitempty" enum:"restore,fail" default:"restore" jsonschema:"If the container is lost: restore the latest snapshot, or fail."`
}

var imagePattern = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._/:@-]*$`)

// Validate checks what the field tags cannot say.
func (in StartSessionIn) Validate() error {
	if in.Image != "" && in.SnapshotID != "" {
		return Errorf(InvalidArgument, "snapshot_id: give image or snapshot_id, not both")
	}
	if in.Image != "" && !imagePattern.MatchString(in.Image) {
		return Errorf(InvalidArgument, "image: %q is no image reference such as debian:bookworm-slim", clip(in.Image, 64))
	}
	if in.SnapshotID != "" {
		if err := CheckSnapshotID(in.SnapshotID); err != nil {
			return err
		}
	}
	if err := checkLabel("name", in.Name); err != nil {
		return err
	}
	return checkEnv(in.Env)
}

// StartSessionOut describes a started session.
type StartSessionOut struct {
	SessionID  string  `json:"session_id"`
	Status     string  `json:"status" enum:"starting,running,suspended,lost,ending,ended"`
	Image      string  `json:"image"`
	WorkingDir string  `json:"working_dir"`
	Network    string  `json:"network"`
	MemoryMB   int     `json:"memory_mb"`
	CPUs       float64 `json:"cpus"`
	ExpiresAt  string  `json:"expires_at" jsonschema:"When its lifetime ends."`
}

// ListSessionsIn asks for one's sessions.
type ListSessionsIn struct {
	Status string `json:"status,omitempty" enum:"starting,running,suspended,lost,ending,ended" jsonschema:"Default: all that have not ended."`
	Limit  int    `json:"limit,omitempty" minimum:"1" maximum:"500" default:"50"`
}

// ListSessionsOut lists sessions, newest first.
type ListSessionsOut struct {
	Sessions []Info `json:"sessions"`
}

// Info describes a session in a listing.
type Info struct {
	SessionID string `json:"session_id"`
	Name      string `json:"name"`
	Status    string `json:"status"`
	Image     string `json:"image"`
	StartedAt string `json:"started_at"`
	EndedAt   string `json:"ended_at,omitempty"`
}

// GetSessionIn has no arguments but the session.
type GetSessionIn struct{}

// GetSessionOut describes a session now.
type GetSessionOut struct {
	SessionID  string           `json:"session_id"`
	Name       string           `json:"name"`
	Status     string           `json:"status" enum:"starting,running,suspended,lost,ending,ended"`
	Reason     string           `json:"reason,omitempty" jsonschema:"Why it is lost or has ended."`
	Image      string           `json:"image"`
	Network    string           `json:"network"`
	Commands   []RunningCommand `json:"commands" jsonschema:"Running now."`
	Usage      *Usage           `json:"usage,omitempty" jsonschema:"Absent where there is no sandbox to ask."`
	ExpiresAt  string           `json:"expires_at"`
	WorkflowID string           `json:"workflow_id"`
	RunID      string           `json:"run_id"`
}

// RunningCommand is a command that runs now.
type RunningCommand struct {
	CommandID string `json:"command_id"`
	Command   string `json:"command"`
	StartedAt string `json:"started_at"`
}

// Usage is what a sandbox uses of its limits.
type Usage struct {
	MemoryBytes      int64   `json:"memory_bytes"`
	MemoryLimitBytes int64   `json:"memory_limit_bytes"`
	CPUSeconds       float64 `json:"cpu_seconds"`
	PIDs             int     `json:"pids"`
	PIDsLimit        int     `json:"pids_limit"`
	DiskBytes        int64   `json:"disk_bytes" jsonschema:"Logs and journal."`
}

// EndSessionIn has no arguments but the session.
type EndSessionIn struct{}

// EndSessionOut confirms the end.
type EndSessionOut struct {
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
}

// Interrupt is the argument of SignalInterrupt. A signal cannot be refused: one
// with another owner is ignored.
type Interrupt struct {
	Owner  string `json:"owner"`
	CallID string `json:"call_id"`
}

// End is the argument of SignalEnd. One with another owner is ignored.
type End struct {
	Owner  string `json:"owner"`
	Reason string `json:"reason"`
}

// Look is the argument of SignalLook. One for another incarnation than the
// session's own is ignored.
type Look struct {
	Incarnation int `json:"incarnation"`
}

// Asker is the argument of QueryStatus: who asks.
type Asker struct {
	Owner string `json:"owner"`
}

// Description is the answer of QueryStatus on a session.
type Description struct {
	// Found is false when the asker does not own the session.
	Found bool `json:"found"`
	// Failure is why it could not start, for the caller of start_session.
	Failure *Failure        `json:"failure,omitempty"`
	Start   StartSessionOut `json:"start"`
	Session GetSessionOut   `json:"session"`
}

// Failure is an Error in a workflow's state.
type Failure struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// WorkflowInput starts a session workflow, and carries its state over
// continue-as-new.
type WorkflowInput struct {
	SessionID string         `json:"session_id"`
	Owner     string         `json:"owner"`
	CallID    string         `json:"call_id"` // of start_session
	Start     StartSessionIn `json:"start"`
	// State is what an earlier run of the same session left; opaque here.
	State []byte `json:"state,omitempty"`
}
