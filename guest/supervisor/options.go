package supervisor

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// Defaults of Options.
const (
	// DefaultLogCap is how much of one stream is kept: 64 MiB.
	DefaultLogCap = 64 << 20
	// DefaultLogTotal is how much all logs of a session may hold: 1 GiB.
	DefaultLogTotal = 1 << 30
	// DefaultMaxRunning is how many commands may run at a time.
	DefaultMaxRunning = 256
	// DefaultFileTimeout bounds one file operation.
	DefaultFileTimeout = 30 * time.Second
)

// Identity is whom commands and file operations run as.
type Identity struct{ UID, GID uint32 }

// Options configure a Supervisor. Zero values are the defaults, where one is
// named.
type Options struct {
	// Fence is the session and incarnation this guest serves. Required.
	Fence guest.Fence
	// State is the directory of journal, logs and socket, 0700 and the guest's
	// own. Required.
	State string
	// Version gives what Hello tells; default "".
	Version func() string
	// Identity is nil to run commands as the guest itself (tests).
	Identity *Identity
	// Env is what every command's environment starts from, as in os.Environ.
	Env []string
	// Home is HOME; default "/". WorkDir is where commands start; default Home.
	Home, WorkDir string
	// FileOp is the command line that serves one file operation on its stdio,
	// for example {"/proc/self/exe", "file-op"}. Required for file operations.
	FileOp []string
	// LogCap, LogTotal, MaxRunning and FileTimeout: see the defaults.
	LogCap      int64
	LogTotal    int64
	MaxRunning  int
	FileTimeout time.Duration
	// PeerUID is the only uid that may connect to the socket.
	PeerUID uint32
	// CgroupRoot is where cgroups are mounted; default /sys/fs/cgroup.
	CgroupRoot string
	// Log is where the guest's own log goes; default discarded.
	Log *slog.Logger
	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Home = cmp.Or(o.Home, "/")
	o.WorkDir = cmp.Or(o.WorkDir, o.Home)
	o.LogCap = cmp.Or(o.LogCap, DefaultLogCap)
	o.LogTotal = cmp.Or(o.LogTotal, DefaultLogTotal)
	o.MaxRunning = cmp.Or(o.MaxRunning, DefaultMaxRunning)
	o.FileTimeout = cmp.Or(o.FileTimeout, DefaultFileTimeout)
	o.CgroupRoot = cmp.Or(o.CgroupRoot, "/sys/fs/cgroup")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Version == nil {
		o.Version = func() string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
