package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/system"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// Check tells whether the engine answers and can enforce what sandboxes promise:
// memory, CPU and process limits, and a seccomp filter. It is refused with
// FailedPrecondition otherwise, all that is missing named with a remedy.
func (b *Backend) Check(ctx context.Context) error {
	info, err := b.api.Info(ctx)
	if err != nil {
		return b.noAnswer(err)
	}
	faults := classify(info, b.version, b.opts.Runtime).Faults
	if len(faults) == 0 {
		return nil
	}
	return session.Errorf(session.FailedPrecondition, "the Docker Engine at %s cannot keep sandboxes within bounds: %s",
		b.api.DaemonHost(), joinNotes(faults))
}

// joinNotes writes each note with its remedy in brackets.
func joinNotes(notes []Note) string {
	parts := make([]string, len(notes))
	for i, n := range notes {
		parts[i] = n.Text
		if n.Remedy != "" {
			parts[i] += " (" + n.Remedy + ")"
		}
	}
	return strings.Join(parts, "; ")
}

// missing lists what an engine cannot enforce.
func (p Platform) missing(info system.Info, runtime string) []Note {
	var faults []Note
	need := func(ok bool, text, remedy string) {
		if !ok {
			faults = append(faults, Note{text, remedy})
		}
	}
	// Some engines without a cgroup driver claim the kernel's limits for
	// themselves (moby#42151).
	driver := info.CgroupDriver != "none"
	limit := func(ok bool, what, controller string) {
		remedy := "enable the " + controller + " cgroup controller on the kernel's command line"
		if p.Rootless {
			remedy = "delegate the " + controller + " cgroup controller to the user: cgroup v2, and in a drop-in of user@.service " +
				"Delegate=cpu cpuset io memory pids"
		}
		need(ok && driver, "no "+what+" limit", remedy)
	}
	limit(info.MemoryLimit, "memory", "memory")
	limit(info.CPUCfsQuota && info.CPUCfsPeriod, "CPU", "cpu")
	limit(info.PidsLimit, "process", "pids")
	need(seccompOn(info.SecurityOptions) || p.Builtin, "no seccomp filter", "use a kernel with CONFIG_SECCOMP_FILTER and remove "+
		"\"seccomp-profile\": \"unconfined\" from the engine's daemon.json")
	if runtime != "" {
		_, known := info.Runtimes[runtime]
		need(known, fmt.Sprintf("no runtime %q", runtime), "add it to \"runtimes\" in the engine's daemon.json")
	}
	return faults
}

// seccompOn reads entries such as "name=seccomp,profile=builtin". A runtime with
// its own kernel still gets the filter around it.
func seccompOn(options []string) bool {
	return slices.ContainsFunc(options, func(option string) bool {
		fields := strings.Split(option, ",")
		return slices.Contains(fields, "name=seccomp") && !slices.Contains(fields, "profile=unconfined")
	})
}

// errEngine is what the engine's own faults are wrapped with, as opposed to what
// it says of an object.
var errEngine = errors.New("docker engine")

// engineErr says which step failed; nil stays nil.
func engineErr(step string, err error) error {
	if err == nil {
		return nil
	}
	if errdefs.IsInternal(err) || errdefs.IsInvalidArgument(err) || errdefs.IsPermissionDenied(err) || errdefs.IsNotImplemented(err) {
		return fmt.Errorf("%w: %s: %w: %w", errEngine, step, activities.ErrRefused, err)
	}
	return fmt.Errorf("%w: %s: %w", errEngine, step, err)
}
