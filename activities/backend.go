package activities

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// ErrSandboxGone says that a sandbox's container does not exist or does not run
// any more, as seen at the engine itself. Only a backend that looked may say so.
var ErrSandboxGone = errors.New("sandbox is gone")

// ErrSuperseded says that a newer incarnation of the session exists: the caller
// is late and must change nothing.
var ErrSuperseded = errors.New("sandbox was superseded by a newer incarnation")

// ErrRefused says that the engine answered and did not do what it was asked. It
// may be of the moment, so that it is asked again, but not for ever.
var ErrRefused = errors.New("the engine refuses")

// Backend provides sandboxes on one host. All methods are safe for concurrent
// use and idempotent; all end when ctx does.
//
// Errors: *session.Error for what the caller of a tool must know (image
// unknown, a limit the engine cannot enforce), ErrSandboxGone and
// ErrSuperseded as documented, ErrRefused wrapped with the engine's words,
// anything else is a passing fault worth a retry.
// backendtest is the conformance suite.
type Backend interface {
	// HostID names this host and its engine, the same over restarts of both.
	HostID() string
	// Check tells whether the engine answers and can enforce every limit.
	Check(ctx context.Context) error
	// CreateSandbox makes the incarnation that spec names, or finds it. It
	// prepares the image first, then removes containers of earlier
	// incarnations of the session (their guest must not write the journal any
	// more), then creates and starts the new one on the session's volume, and
	// returns when its guest answers. ErrSuperseded when a later incarnation
	// exists. After an error nothing half-made is left, and an earlier
	// incarnation still runs if the image could not be prepared.
	CreateSandbox(ctx context.Context, spec SandboxSpec) (Sandbox, error)
	// ReviveSandbox starts a container that stopped (the engine restarted, the
	// guest died): same incarnation, files kept, its commands lost. A running
	// one is left alone. ErrSandboxGone when there is no such container or its
	// volume is gone.
	ReviveSandbox(ctx context.Context, ref SandboxRef) (Sandbox, error)
	// State looks at the engine.
	State(ctx context.Context, ref SandboxRef) (SandboxState, error)
	// Guest gives the sandbox's guest. Cheap: connections are kept. Calls on
	// it fail with guest.ErrUnreachable when there is no answer; then ask State.
	Guest(ctx context.Context, ref SandboxRef) (guest.API, error)
	// RemoveSession removes everything of a session: containers of every
	// incarnation, volume, networks, and snapshot images whose snapshot was
	// deleted while the session still used them. Nothing there is no error.
	RemoveSession(ctx context.Context, sessionID string) error
	// TakeSnapshot keeps the sandbox's files as an image, with its processes
	// paused meanwhile. The same SnapshotID again finds the image.
	TakeSnapshot(ctx context.Context, spec SnapshotSpec) (SnapshotImage, error)
	// FindSnapshot describes a snapshot's image. session.NotFound when it is
	// not on this host.
	FindSnapshot(ctx context.Context, snapshotID string) (SnapshotImage, error)
	// RemoveSnapshot removes a snapshot's image as far as no container uses
	// it. Nothing there is no error.
	RemoveSnapshot(ctx context.Context, snapshotID string) error
	// Inventory lists everything at the engine that carries this
	// installation's labels.
	Inventory(ctx context.Context) ([]Resource, error)
	// RemoveResource removes one object of an inventory if it still is what it was
	// listed as: role, name, session and incarnation agree. One that is gone,
	// that is another now, or that something uses stays as it is without an
	// error; so does one without a role. A container takes nothing else along.
	RemoveResource(ctx context.Context, r Resource) error
	// Close closes connections; sandboxes go on.
	Close() error
}

// Watcher is a Backend that can tell of a sandbox's death at once, and not only
// when it is next used.
type Watcher interface {
	// Watch calls died for each container of this installation that has ended
	// without being asked to by this backend, until ctx ends. It may tell of one
	// more than once, also of a superseded one, and calls died one at a time.
	Watch(ctx context.Context, died func(SandboxRef))
}

// SandboxSpec describes the sandbox to create.
type SandboxSpec struct {
	SessionID   string `json:"session_id"`
	Incarnation int    `json:"incarnation"` // from 1
	Owner       string `json:"owner"`
	CallID      string `json:"call_id"` // of the call that asks for it
	// Image is a reference; empty is the installation's default image. With
	// SnapshotID it is not used: the snapshot's image is.
	Image      string  `json:"image,omitempty"`
	SnapshotID string  `json:"snapshot_id,omitempty"`
	Network    string  `json:"network"` // session.NetworkNone, NetworkFull
	MemoryMB   int     `json:"memory_mb"`
	CPUs       float64 `json:"cpus"`
	// ExpiresAt is the end of the session's lifetime; the guest ends itself an
	// hour later if nobody did.
	ExpiresAt time.Time `json:"expires_at"`
}

// SandboxRef names one incarnation's container.
type SandboxRef struct {
	SessionID   string `json:"session_id"`
	Incarnation int    `json:"incarnation"`
	ContainerID string `json:"container_id"`
}

// Sandbox describes a running sandbox.
type Sandbox struct {
	Ref SandboxRef `json:"ref"`
	// Image is the reference as asked for, or the default's.
	Image string `json:"image"`
	// WorkingDir is where commands run and relative paths start.
	WorkingDir string `json:"working_dir"`
}

// SandboxState is what the engine says of a container.
type SandboxState string

// The states of a container.
const (
	SandboxRunning SandboxState = "running"
	SandboxPaused  SandboxState = "paused"
	SandboxStopped SandboxState = "stopped"
	SandboxMissing SandboxState = "missing"
)

// SnapshotSpec describes the snapshot to take.
type SnapshotSpec struct {
	Sandbox    SandboxRef `json:"sandbox"`
	SnapshotID string     `json:"snapshot_id"`
	CallID     string     `json:"call_id"`
	Owner      string     `json:"owner"`
}

// SnapshotImage describes a snapshot's image.
type SnapshotImage struct {
	SnapshotID string    `json:"snapshot_id"`
	ImageID    string    `json:"image_id"`
	BaseImage  string    `json:"base_image"` // the reference the session was started with
	SizeBytes  int64     `json:"size_bytes"`
	Excluded   []string  `json:"excluded"` // places whose files are not in it
	CreatedAt  time.Time `json:"created_at"`
}

// ResourceKind is a kind of object at the engine.
type ResourceKind string

// The kinds of objects.
const (
	KindContainer ResourceKind = "container"
	KindVolume    ResourceKind = "volume"
	KindNetwork   ResourceKind = "network"
	KindImage     ResourceKind = "image"
)

// Role is what an object is to an installation, where its labels, kind and name
// agree on that. An object of no role is nobody's to remove: somebody made it of
// an image of ours, which hands its labels on.
type Role string

// The roles.
const (
	RoleSandbox  Role = "sandbox"  // the container of an incarnation
	RoleJournal  Role = "journal"  // a session's volume
	RoleVolume   Role = "volume"   // a volume of one incarnation
	RoleBuild    Role = "build"    // a container for a moment, which no session has
	RoleBridge   Role = "bridge"   // the network that sandboxes share
	RoleSpare    Role = "spare"    // a second network of the bridge's name
	RoleSnapshot Role = "snapshot" // a snapshot's image
	RoleDerived  Role = "derived"  // an image with the guest in it, made of another
)

// Resource is one object at the engine that carries our labels.
type Resource struct {
	Kind        ResourceKind
	Role        Role // "" where labels, kind and name do not agree
	ID          string
	SessionID   string
	SnapshotID  string // of an image
	Incarnation int
	Created     time.Time

	Running bool // a container
	InUse   bool // an image: a container of ours is made of it
	Default bool // a derived image: that of the default image and the current guest
	// LastUsed is when a sandbox was last made of a derived image, a day exactly;
	// zero where the engine does not tell.
	LastUsed time.Time
}
