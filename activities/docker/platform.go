package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
)

// Support is how far sandboxes' promises hold on an engine.
type Support string

// The kinds of support.
const (
	Supported Support = "supported"
	Limited   Support = "limited" // works, with the limits named
	Refused   Support = "refused" // a promise would not hold
)

// Kind is who made an engine.
type Kind string

// The kinds of engines; whatever is not known to be another counts as
// KindEngine.
const (
	KindEngine  Kind = "Docker Engine"
	KindDesktop Kind = "Docker Desktop"
	KindPodman  Kind = "Podman"
)

// Note is one thing that is limited or missing. Remedy is empty where there is
// none.
type Note struct{ Text, Remedy string }

// Platform is what an engine says it is, and what that means. docs/platforms.md
// has it as a table.
type Platform struct {
	Kind    Kind
	Version string // the engine's
	// Rootless: dockerd runs as an ordinary user. Remapped: containers run in a
	// user namespace of their own (userns-remap).
	Rootless, Remapped bool
	// Builtin: containers go without a seccomp filter unless they ask for the
	// engine's own, as sandboxes then do. Docker Desktop comes so.
	Builtin bool
	// Cgroup is "1", "2" or, with engines that do not say, "".
	Cgroup string
	// Limits are what works less well, Faults why it is refused.
	Limits, Faults []Note
}

// Support sums Limits and Faults up.
func (p Platform) Support() Support {
	switch {
	case len(p.Faults) > 0:
		return Refused
	case len(p.Limits) > 0:
		return Limited
	}
	return Supported
}

// String names the platform: "Docker Engine 28.5.2, rootless, cgroup v2".
func (p Platform) String() string {
	parts := []string{strings.TrimSpace(string(p.Kind) + " " + p.Version)}
	if p.Kind == KindDesktop {
		parts[0] = string(p.Kind) + " with engine " + p.Version
	}
	if p.Rootless {
		parts = append(parts, "rootless")
	}
	if p.Remapped {
		parts = append(parts, "userns-remap")
	}
	if p.Cgroup != "" {
		parts = append(parts, "cgroup v"+p.Cgroup)
	}
	return strings.Join(parts, ", ")
}

// RefusedError is New's error for an engine that is not one to use at all.
type RefusedError struct {
	Platform Platform
	Address  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s at %s cannot keep what sandboxes promise: %s", e.Platform, e.Address, joinNotes(e.Platform.Faults))
}

// classify reads an engine's own word of itself. runtime is the OCI runtime for
// sandboxes, "" for the engine's default.
func classify(info system.Info, version types.Version, runtime string) Platform {
	p := Platform{
		Kind: kindOf(info, version), Version: info.ServerVersion, Cgroup: info.CgroupVersion,
		Rootless: hasOption(info.SecurityOptions, "rootless"), Remapped: hasOption(info.SecurityOptions, "userns"),
	}
	if p.Kind == KindPodman {
		p.Faults = podmanFaults
		return p // what it says of limits is not looked at
	}
	p.Builtin = hasOption(info.SecurityOptions, "seccomp") && !seccompOn(info.SecurityOptions) &&
		versions.GreaterThanOrEqualTo(version.APIVersion, builtinSeccomp)
	p.Faults = p.missing(info, runtime)
	if p.Kind == KindDesktop {
		p.Limits = append(p.Limits, Note{
			Text:   "Docker Desktop: memory and CPUs of sandboxes come out of its virtual machine's; sandboxes are gone when it is stopped or updated",
			Remedy: "give the virtual machine enough memory in Docker Desktop's settings (Resources)",
		})
	}
	if p.Rootless {
		p.Limits = append(p.Limits, Note{
			Text:   "rootless: no AppArmor profile around sandboxes; network full works only where the kernel has nf_tables already loaded, and a session is refused where not",
			Remedy: "for network full: modprobe nf_tables nft_reject_inet, once per boot and as root",
		})
	}
	if p.Remapped {
		p.Limits = append(p.Limits, Note{
			Text:   "userns-remap: a name server of the host's at a link-local address or on the host itself cannot be asked from sandboxes with network full",
			Remedy: "give serve or worker --dns with a name server elsewhere",
		})
	}
	return p
}

// builtinSeccomp is the API of the first engines that take seccomp=builtin.
const builtinSeccomp = "1.42"

// podmanFaults: seen in the source of its Docker-compatible API.
var podmanFaults = []Note{
	{Text: "Podman's socket gives another engine ID at every question, so that sessions would not find their host again", Remedy: useDocker},
	{Text: "it ignores the bridge option enable_icc, so that sandboxes with network full would reach each other", Remedy: useDocker},
}

const useDocker = "use a Docker Engine, rootless if need be, and choose it by DOCKER_HOST or `docker context use`"

func kindOf(info system.Info, version types.Version) Kind {
	podman := func(c types.ComponentVersion) bool { return strings.HasPrefix(c.Name, "Podman") }
	switch {
	case slices.ContainsFunc(version.Components, podman):
		return KindPodman
	case info.OperatingSystem == "Docker Desktop", strings.HasPrefix(version.Platform.Name, "Docker Desktop"):
		return KindDesktop
	}
	return KindEngine
}

// hasOption looks for an entry such as "name=rootless" or "name=seccomp,profile=builtin".
func hasOption(options []string, name string) bool {
	return slices.ContainsFunc(options, func(option string) bool {
		return slices.Contains(strings.Split(option, ","), "name="+name)
	})
}

// outerNames are names by which a virtual machine's containers reach the machine
// around it. Guests close what they stand for.
func (p Platform) outerNames() []string {
	if p.Kind == KindDesktop {
		return []string{"host.docker.internal", "gateway.docker.internal"}
	}
	return nil
}

// outerNetworks are the addresses that virtual machines and rootless engines
// give to the machine around them.
func (p Platform) outerNetworks() []string {
	switch {
	case p.Kind == KindDesktop:
		return []string{"192.168.65.0/24"} // its default
	case p.Rootless:
		return []string{"10.0.2.0/24", "192.168.65.0/24"} // slirp4netns and pasta; vpnkit
	}
	return nil
}
