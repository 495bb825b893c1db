package activities

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// HeartbeatTimeout is how soon the server notices a killed worker; activities
// heartbeat four times as often.
const HeartbeatTimeout = 2 * time.Second

// internalAttempts is how often a request is sent to a guest that reports a
// fault of its own: some 3 s.
const internalAttempts = 5

// Host holds the activities of one host's queue.
type Host struct {
	backend Backend
	log     *slog.Logger
	blobs   Blobs
	reaper  reaperConfig

	refusals refusals
}

// NewHost makes the activities on a backend.
func NewHost(b Backend, log *slog.Logger) *Host {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Host{backend: b, log: log}
}

// Register registers the activities under their names.
func (h *Host) Register(r worker.ActivityRegistry) {
	for name, f := range map[string]any{
		CreateSandbox: h.createSandbox, ReviveSandbox: h.reviveSandbox, RemoveSession: h.removeSession,
		DescribeUsage: h.describeUsage, RefuseCall: h.refuseCall, Interrupt: h.interrupt,
		RunCommand: h.runCommand, ReadOutput: h.readOutput, SendInput: h.sendInput, StopCommand: h.stopCommand,
		ReadFile: h.readFile, WriteFile: h.writeFile, EditFile: h.editFile,
		CopyIn: h.copyIn, CopyOut: h.copyOut,
		TakeSnapshot: h.takeSnapshot, CheckSnapshot: h.checkSnapshot, RemoveSnapshot: h.removeSnapshot,
		Reap: h.reap,
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// onGuest carries a request to the guest of a sandbox, heartbeating meanwhile,
// and turns its error into one that the workflow understands.
func onGuest[T any](ctx context.Context, h *Host, ref SandboxRef, ask func(context.Context, guest.API) (T, error)) (T, error) {
	return onGuestTelling(ctx, h, ref, nil, ask)
}

// onGuestTelling is onGuest with details in each heartbeat.
func onGuestTelling[T any](ctx context.Context, h *Host, ref SandboxRef, details func() any, ask func(context.Context, guest.API) (T, error)) (T, error) {
	ctx, stop := heartbeatTelling(ctx, details)
	defer stop()
	var zero T
	g, err := h.backend.Guest(ctx, ref)
	if err == nil {
		var out T
		if out, err = ask(ctx, g); err == nil {
			return out, nil
		}
	}
	if ctx.Err() != nil { // cancelled, or the worker stops: nothing was decided
		return zero, context.Cause(ctx)
	}
	return zero, h.explain(ctx, ref, err)
}

// explain tells apart what the guest said, a sandbox that is gone, and a fault
// that passes. Only the second and the first are final.
func (h *Host) explain(ctx context.Context, ref SandboxRef, err error) error {
	switch guest.CodeOf(err) {
	case "":
	case guest.CodeFenced:
		return gone(ref, err) // another incarnation answers: this one is past
	case guest.CodeRefused:
		// A journalled refusal makes this outcome certain, and so final.
		return session.EncodeError(session.Errorf(session.Unavailable,
			"the call was given up before it reached the sandbox; nothing happened, send it again with a new call ID"))
	case guest.CodeInternal:
		// It may pass (a write to the journal), or stand recorded as the outcome.
		if activity.GetInfo(ctx).Attempt >= internalAttempts {
			h.log.ErrorContext(ctx, "the guest has a fault", session.KeySession, ref.SessionID, "error", err)
			return session.EncodeError(session.Wrap(err, session.Internal, "the sandbox's supervisor has a fault; look at the state before you repeat the call"))
		}
		return err
	default:
		return report(fromGuest(err))
	}
	if errors.Is(err, ErrSandboxGone) || errors.Is(err, ErrSuperseded) {
		return gone(ref, err)
	}
	if _, ok := errors.AsType[*session.Error](err); ok { // of this host, and nothing the guest could change
		return report(err)
	}
	state, stateErr := h.backend.State(ctx, ref)
	if stateErr == nil && (state == SandboxStopped || state == SandboxMissing) {
		return gone(ref, err)
	}
	h.log.WarnContext(ctx, "guest did not answer; the activity will be retried",
		session.KeySession, ref.SessionID, "state", state, "error", err)
	return report(err)
}

// gone is the final word that a container does not run any more.
func gone(ref SandboxRef, cause error) error {
	return temporal.NewApplicationErrorWithOptions("the container does not run any more", session.FailureSandboxGone,
		temporal.ApplicationErrorOptions{NonRetryable: true, Cause: cause, Details: []any{ref.Incarnation}})
}

// report gives an error the form in which it leaves an activity: *session.Error
// is final, anything else is retried.
func report(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*session.Error](err); ok && e.Code != session.Internal && e.Code != session.Unavailable {
		return session.EncodeError(e)
	}
	return err
}

// fromGuest translates the guest's codes.
func fromGuest(err error) error {
	e, ok := errors.AsType[*guest.Error](err)
	if !ok {
		return err
	}
	codes := map[guest.Code]session.Code{
		guest.CodeInvalid:      session.InvalidArgument,
		guest.CodeNotFound:     session.NotFound,
		guest.CodePermission:   session.PermissionDenied,
		guest.CodePrecondition: session.FailedPrecondition,
		guest.CodeConflict:     session.FailedPrecondition,
		guest.CodeTooLarge:     session.InvalidArgument,
		guest.CodeExhausted:    session.ResourceExhausted,
		guest.CodeLost:         session.Lost,
	}
	if code, ok := codes[e.Code]; ok {
		return session.Errorf(code, "%s", e.Message)
	}
	return err
}

var errWorkerStops = errors.New("worker is stopping")

// heartbeat heartbeats until stop is called, and ends the context when the
// worker stops, so that the next worker takes over at once.
func heartbeat(ctx context.Context) (_ context.Context, stop func()) {
	return heartbeatTelling(ctx, nil)
}

// heartbeatTelling is heartbeat with details, unless that is nil.
func heartbeatTelling(ctx context.Context, details func() any) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(HeartbeatTimeout / 4)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-activity.GetWorkerStopChannel(ctx):
				cancel(errWorkerStops)
				return
			case <-tick.C:
				if details == nil {
					activity.RecordHeartbeat(ctx)
				} else {
					activity.RecordHeartbeat(ctx, details())
				}
			}
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-done
	}
}
