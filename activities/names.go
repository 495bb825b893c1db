package activities

import "github.com/mcp-sandbox/mcp-sandbox/session"

// Names of the activities on the shared queue.
const (
	PlaceSession     = "PlaceSession"
	DescribeSnapshot = "DescribeSnapshot"
)

// Names of the activities on a host's queue.
const (
	CreateSandbox  = "CreateSandbox"
	ReviveSandbox  = "ReviveSandbox"
	RemoveSession  = "RemoveSession"
	DescribeUsage  = "DescribeUsage"
	RefuseCall     = "RefuseCall"
	Interrupt      = "InterruptCommand"
	RunCommand     = "RunCommand"
	ReadOutput     = "ReadOutput"
	SendInput      = "SendInput"
	StopCommand    = "StopCommand"
	ReadFile       = "ReadFile"
	WriteFile      = "WriteFile"
	EditFile       = "EditFile"
	CopyIn         = "CopyIn"
	CopyOut        = "CopyOut"
	TakeSnapshot   = "TakeSnapshot"
	CheckSnapshot  = "CheckSnapshot"
	RemoveSnapshot = "RemoveSnapshot"
	Reap           = "Reap"
)

// Task is the argument of an activity that carries a call to a sandbox's guest.
type Task[In any] struct {
	Ref    SandboxRef `json:"ref"`
	CallID string     `json:"call_id"`
	Digest string     `json:"digest"` // of operation and arguments (session.Digest)
	In     In         `json:"in"`
	// Env is the session's environment; RunCommand alone uses it.
	Env map[string]string `json:"env,omitempty"`
	// LeftMS bounds the guest's wait to what the caller's patience leaves; 0 is the
	// call's own.
	LeftMS int64 `json:"left_ms,omitempty"`
	// NearMS bounds the guest's wait of a near call; 0 is the call's own.
	NearMS int64 `json:"near_ms,omitempty"`
	// MemoryMB is the session's memory limit, for messages.
	MemoryMB int `json:"memory_mb,omitempty"`
	// Progress has RunCommand tell of the command's output in its heartbeats.
	Progress bool `json:"progress,omitempty"`
}

// None is the argument or result of an activity that has none.
type None struct{}

// Place is where a session goes.
type Place struct {
	HostID string `json:"host_id"`
	Queue  string `json:"queue"`
}

// SnapshotQuery asks for a snapshot on behalf of an owner.
type SnapshotQuery struct {
	Owner      string `json:"owner"`
	SnapshotID string `json:"snapshot_id"`
}

// UsageReport answers DescribeUsage.
type UsageReport struct {
	Usage    session.Usage            `json:"usage"`
	Commands []session.RunningCommand `json:"commands"`
}

// Refusal answers RefuseCall.
type Refusal struct {
	// Refused is false when the call had begun: then it stands.
	Refused bool `json:"refused"`
}
