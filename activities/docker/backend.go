package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/client"
	"golang.org/x/sync/singleflight"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
)

// Defaults of Options.
const (
	DefaultPidsLimit   = 512
	DefaultPullTimeout = 10 * time.Minute
	DefaultIdleStream  = 10 * time.Minute
	DefaultGuestWait   = 20 * time.Second
)

// Options configures a Backend. Fields without a default are required.
type Options struct {
	// Host is the engine to connect to. Default: the local one.
	Host Host
	// Client is used instead of Host when set; the caller closes it.
	Client client.APIClient
	// InstallationID separates installations that share an engine: what
	// carries another one's label is never seen. At most 63 of [a-z0-9-].
	InstallationID string
	// HostID is this host's persisted ID.
	HostID string
	// DefaultImage is the reference for a SandboxSpec that names none.
	DefaultImage string
	// Guest returns the guest program for a GOARCH (embedded.Binary).
	Guest func(arch string) ([]byte, error)
	// Logger's default discards.
	Logger *slog.Logger
	// LogCap bounds a command's log per stream, in bytes. Default: the guest's.
	LogCap int64
	// PidsLimit bounds processes and threads of a sandbox, the guest's own
	// (some 30) included. Default 512.
	PidsLimit int64
	// Runtime is an OCI runtime that the engine knows, such as runsc. Default:
	// the engine's.
	Runtime string
	// DNS are name servers for sandboxes with a network. Default: the engine's
	// host's.
	DNS []netip.Addr
	// DenyAddresses are closed to sandboxes with a network, beside the engine's
	// host, its networks and metadata services.
	DenyAddresses []netip.Prefix
	// PullTimeout bounds the pull of an image. Default 10 min.
	PullTimeout time.Duration
	// IdleStream is how long an unused stream to a guest is kept. Default 10 min.
	IdleStream time.Duration
	// GuestWait is how long a started guest may take to answer. Default 20 s, for
	// a host that starts many at a time; one that died is noticed at once.
	GuestWait time.Duration
}

// Backend implements activities.Backend over a Docker Engine.
type Backend struct {
	opts    Options
	api     client.APIClient
	ownsAPI bool
	log     *slog.Logger
	hostID  string
	arch    string // GOARCH of the engine
	guest   program
	derive  singleflight.Group // by base image ID
	streams *streams
	commits commits
	// removing are the IDs of containers whose removal is at work here.
	removing sync.Map

	version  types.Version
	platform Platform
	host     hostAddresses

	background sync.WaitGroup  // what goes on after a call gave up
	life       context.Context //nolint:containedctx // of the Backend, which outlives every call
	end        context.CancelFunc
}

var _ activities.Backend = (*Backend)(nil)

// program is the guest for the engine's architecture.
type program struct {
	binary  []byte
	version string // the start of its SHA-256, in hex
}

// New connects to an engine. It fails when none answers, when it is one to
// refuse (RefusedError), when it runs no Linux of an architecture there is a guest for, or when no guest is built in; the
// error says what to do. Limits are Check's matter. The caller closes it.
func New(ctx context.Context, opts Options) (*Backend, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	b := &Backend{opts: opts, api: opts.Client, log: opts.Logger}
	b.life, b.end = context.WithCancel(context.WithoutCancel(ctx))
	if b.api == nil {
		c, err := opts.Host.connect()
		if err != nil {
			return nil, err
		}
		b.api, b.ownsAPI = c, true
	}
	if err := b.meet(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (o *Options) complete() error {
	switch {
	case !installationPattern.MatchString(o.InstallationID):
		return fmt.Errorf("installation ID %q: must be 1 to 63 of a-z 0-9 and -", o.InstallationID)
	case o.HostID == "":
		return errors.New("no host ID")
	case o.Guest == nil:
		return errors.New("no guest program")
	}
	o.Logger = orDefault(o.Logger, slog.New(slog.DiscardHandler))
	o.PidsLimit = orDefault(o.PidsLimit, DefaultPidsLimit)
	o.PullTimeout = orDefault(o.PullTimeout, DefaultPullTimeout)
	o.IdleStream = orDefault(o.IdleStream, DefaultIdleStream)
	o.GuestWait = orDefault(o.GuestWait, DefaultGuestWait)
	return nil
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// meet learns what never changes of an engine: what it is, its ID and its
// architecture.
func (b *Backend) meet(ctx context.Context) error {
	info, err := b.api.Info(ctx)
	if err != nil {
		return b.noAnswer(err)
	}
	version, err := b.api.ServerVersion(ctx)
	if err != nil {
		return b.noAnswer(err)
	}
	b.version = version
	b.platform = classify(info, version, b.opts.Runtime)
	if b.platform.Kind == KindPodman {
		return &RefusedError{b.platform, b.api.DaemonHost()}
	}
	if info.OSType != "linux" {
		return fmt.Errorf("the Docker Engine at %s runs %s containers; sandboxes need Linux ones", b.api.DaemonHost(), info.OSType)
	}
	arch, ok := architectures[info.Architecture]
	if !ok {
		return fmt.Errorf("the Docker Engine at %s is %s; sandboxes need amd64 or arm64", b.api.DaemonHost(), info.Architecture)
	}
	binary, err := b.opts.Guest(arch)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(binary)
	engine := sha256.Sum256([]byte(info.ID))
	b.arch = arch
	b.guest = program{binary: binary, version: hex.EncodeToString(sum[:6])}
	b.hostID = b.opts.HostID + "-" + hex.EncodeToString(engine[:4])
	b.streams = newStreams(b)
	b.host.turn = make(chan struct{}, 1)
	return nil
}

// architectures maps the kernel's names to Go's.
var architectures = map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

func (b *Backend) noAnswer(err error) error {
	return fmt.Errorf("the Docker Engine at %s does not answer (is it running, and may this user use it?): %w", b.api.DaemonHost(), err)
}

// outlive makes a context for what goes on when ctx ends: until limit, or Close.
func (b *Backend) outlive(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(b.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// HostID is the host's ID and the start of a digest of the engine's, which the
// engine keeps in its data directory.
func (b *Backend) HostID() string { return b.hostID }

// Platform tells what the engine is, and how far it is supported.
func (b *Backend) Platform() Platform { return b.platform }

// Close closes the streams to guests, and the client if New made it.
func (b *Backend) Close() error {
	b.end()
	b.background.Wait()
	if b.streams != nil {
		b.streams.close()
	}
	if b.ownsAPI {
		return b.api.Close()
	}
	return nil
}
