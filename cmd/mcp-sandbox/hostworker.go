package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
	"github.com/mcp-sandbox/mcp-sandbox/guest/embedded"
	defaultimage "github.com/mcp-sandbox/mcp-sandbox/images/default"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/workflows"
)

// How soon other workers take over from one that was killed (figures in
// docs/adr/002-timeouts-and-latency.md): Temporal's defaults are 5 s and 10 s.
const (
	stickyTimeout = time.Second
	stopTimeout   = 2 * time.Second
)

// engineTimeout is how soon an engine must have answered when a worker starts.
const engineTimeout = 5 * time.Second

// hostConfig are the flags of a worker and its engine.
type hostConfig struct {
	defaultImage string
	pidsLimit    int64
	runtime      string
	network      networkConfig
	eventsPerRun int
	callBound    time.Duration
	retention    time.Duration
	nearWait     time.Duration
	blobDir      string
	reaper       reaperConfig
}

func (h *hostConfig) flags(f *pflag.FlagSet) {
	f.StringVar(&h.defaultImage, "default-image", defaultimage.Ref, "image of sessions that ask for none")
	f.Int64Var(&h.pidsLimit, "pids-limit", docker.DefaultPidsLimit, "processes and threads of one sandbox")
	f.StringVar(&h.runtime, "runtime", "", "OCI runtime of the engine for sandboxes, such as runsc")
	h.network.flags(f)
	h.reaper.flags(f)
	f.DurationVar(&h.retention, "snapshot-retention", 30*24*time.Hour, "how long a snapshot is kept")
	f.DurationVar(&h.callBound, "call-bound", 10*time.Minute, "how long a call tries to reach its sandbox")
	f.DurationVar(&h.nearWait, "near-wait", 0, "how long a call is tried without a task on the host's queue (0: 100ms, negative: not at all)")
	f.StringVar(&h.blobDir, "blob-dir", "", blobDirUsage)
	f.IntVar(&h.eventsPerRun, "events-per-run", 0, "history events after which a session continues as new (0: Temporal's suggestion)")
	_ = f.MarkHidden("near-wait")
	_ = f.MarkHidden("events-per-run")
	_ = f.MarkHidden("call-bound")
}

// leastPIDs is what the guest's own threads and a shell with a few children need.
const leastPIDs = 64

// check refuses limits that would be none: 0 and less mean "unlimited" to an
// engine, and "the default" to the layers below.
func (h *hostConfig) check() error {
	switch {
	case h.pidsLimit < leastPIDs:
		return usagef("--pids-limit: %d is below %d, which the sandbox itself and a few commands need", h.pidsLimit, leastPIDs)
	case h.retention < time.Second:
		return usagef("--snapshot-retention: %s is below a second; a snapshot would be gone before it is used", h.retention)
	case h.defaultImage == "" || session.Validate(&session.StartSessionIn{Image: h.defaultImage}) != nil:
		return usagef("--default-image: %q is no image reference such as debian:bookworm-slim", h.defaultImage)
	case h.callBound <= 0:
		return usagef("--call-bound: %s is no time at all", h.callBound)
	}
	if err := h.reaper.check(); err != nil {
		return err
	}
	return h.network.check()
}

// hostWorker runs sessions on one engine: a worker on the shared queue for
// workflows and placement, one on the host's queue for the verbs.
type hostWorker struct {
	backend      *docker.Backend
	shared, host worker.Worker
	blobs        *keptBlobs
	stopWatch    func()
	schedule     *reaperSchedule // nil before the workers have started
}

// startHostWorker connects to the engine and starts both workers.
func startHostWorker(ctx context.Context, cfg hostConfig, conn *temporalConn, hostID string, sessions *session.Client,
	getenv func(string) string, log *slog.Logger,
) (*hostWorker, error) {
	blobs, err := keepBlobs(cfg.blobDir, log)
	if err != nil {
		return nil, err
	}
	backend, err := openBackend(ctx, cfg, conn.installation, hostID, getenv, log)
	if err != nil {
		blobs.stop()
		return nil, err
	}
	w := &hostWorker{backend: backend, blobs: blobs, stopWatch: func() {}}
	w.shared = worker.New(conn.Client, session.TaskQueue, worker.Options{
		StickyScheduleToStartTimeout: stickyTimeout, WorkerStopTimeout: stopTimeout,
		MaxConcurrentWorkflowTaskPollers: 8, MaxConcurrentActivityTaskPollers: 4,
		DisableEagerActivities: true, // placement asks for room, whoever scheduled it
	})
	workflows.Register(w.shared, workflows.Options{
		CallBound: cfg.callBound, SnapshotRetention: cfg.retention, EventsPerRun: cfg.eventsPerRun, NearWait: cfg.nearWait,
	})
	activities.NewPlacement(backend.HostID(), sessions).Register(w.shared)
	w.host = worker.New(conn.Client, activities.HostQueue(backend.HostID()), worker.Options{
		DisableWorkflowWorker: true, WorkerStopTimeout: stopTimeout,
		MaxConcurrentActivityTaskPollers: 8, MaxConcurrentActivityExecutionSize: 2000,
		MaxHeartbeatThrottleInterval: activities.HeartbeatTimeout / 2, DefaultHeartbeatThrottleInterval: activities.HeartbeatTimeout / 2,
	})
	host := activities.NewHost(backend, log)
	host.UseBlobs(blobs.store)
	host.UseReaper(sessions, cfg.reaper.options)
	host.Register(w.host)
	activities.NewNear(host, backend.HostID()).Register(w.shared)
	if err := w.start(); err != nil {
		w.stop()
		return nil, err
	}
	w.stopWatch = watchSandboxes(ctx, backend, sessions, log)
	w.schedule = keepSchedule(ctx, conn.Client, backend.HostID(), cfg.reaper.every, log)
	return w, nil
}

// lookTimeout bounds telling a session of its sandbox's death.
const lookTimeout = 10 * time.Second

// watchSandboxes tells sessions when their sandbox died, until it is stopped.
func watchSandboxes(ctx context.Context, w activities.Watcher, sessions *session.Client, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	watching.Go(func() {
		w.Watch(ctx, func(ref activities.SandboxRef) {
			log.InfoContext(ctx, "a sandbox died", session.KeySession, ref.SessionID, "container", ref.ContainerID)
			ctx, cancel := context.WithTimeout(ctx, lookTimeout)
			defer cancel()
			if err := sessions.Look(ctx, ref.SessionID, ref.Incarnation); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "the session was not told of its sandbox's death; its next call notices", session.KeySession, ref.SessionID, "error", err)
			}
		})
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

func (w *hostWorker) start() error {
	if err := w.host.Start(); err != nil {
		return fmt.Errorf("start the worker of the host's queue: %w", err)
	}
	if err := w.shared.Start(); err != nil {
		return fmt.Errorf("start the worker of the shared queue: %w", err)
	}
	return nil
}

// stop takes no new work, gives what is at work a moment and closes the engine's
// connection. Sandboxes and their commands go on.
func (w *hostWorker) stop() {
	w.stopWatch()
	if w.schedule != nil {
		w.schedule.stop()
	}
	w.shared.Stop()
	w.host.Stop()
	w.blobs.stop()
	_ = w.backend.Close()
}

func openBackend(ctx context.Context, cfg hostConfig, installation, hostID string, getenv func(string) string, log *slog.Logger) (*docker.Backend, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	host, err := docker.ResolveHost(getenv, home)
	if err != nil {
		return nil, usageError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	backend, err := docker.New(ctx, docker.Options{
		Host: host, InstallationID: installation, HostID: hostID, DefaultImage: cfg.defaultImage,
		Guest: embedded.Binary, Logger: log, PidsLimit: cfg.pidsLimit, Runtime: cfg.runtime,
		DNS: cfg.network.dns, DenyAddresses: cfg.network.deny,
	})
	if err != nil {
		return nil, err
	}
	if err := backend.Check(ctx); err != nil {
		_ = backend.Close()
		return nil, err
	}
	for _, n := range backend.Platform().Limits {
		log.WarnContext(ctx, "the engine is supported with limits", "engine", backend.Platform().String(), "limit", n.Text, "remedy", n.Remedy)
	}
	return backend, nil
}

// newSessionClient makes the client of sessions over a connection. maxSessions
// counts where sessions are started; 0 is no limit.
func newSessionClient(conn *temporalConn, secret []byte, maxSessions int, log *slog.Logger) *session.Client {
	return session.NewClient(session.ClientOptions{
		Temporal: conn.Client, Secret: secret, UpdateSlots: conn.updateSlots, MaxSessions: maxSessions, Logger: log,
	})
}

// checkTemporal tells whether Temporal answers.
func checkTemporal(ctx context.Context, c client.Client) error {
	_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
	return err
}
