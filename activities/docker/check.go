package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/system"

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
	problems := missing(info, b.opts.Runtime)
	if len(problems) == 0 {
		return nil
	}
	return session.Errorf(session.FailedPrecondition, "the Docker Engine at %s cannot keep sandboxes within bounds: %s",
		b.api.DaemonHost(), strings.Join(problems, "; "))
}

func missing(info system.Info, runtime string) []string {
	var problems []string
	need := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	const cgroup = "no %s limit (the %s cgroup controller is off: enable it on the kernel's command line or delegate it to a rootless engine)"
	need(info.MemoryLimit, cgroup, "memory", "memory")
	need(info.CPUCfsQuota && info.CPUCfsPeriod, cgroup, "CPU", "cpu")
	need(info.PidsLimit, cgroup, "process", "pids")
	need(seccompOn(info.SecurityOptions), "no seccomp filter (use a kernel with CONFIG_SECCOMP_FILTER and remove "+
		"\"seccomp-profile\": \"unconfined\" from the engine's daemon.json)")
	if runtime != "" {
		_, known := info.Runtimes[runtime]
		need(known, "no runtime %q (add it to \"runtimes\" in the engine's daemon.json)", runtime)
	}
	return problems
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
	return fmt.Errorf("%w: %s: %w", errEngine, step, err)
}
