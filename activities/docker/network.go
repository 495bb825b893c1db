package docker

import (
	"context"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// bridge gives the name of the network for sandboxes that may reach others:
// one bridge per installation, on which containers cannot reach each other. It
// is made when first needed. An engine has address space for some 30 bridges, so
// a session does not get its own.
func (b *Backend) bridge(ctx context.Context) (string, error) {
	if id, err := b.findBridge(ctx); err != nil || id != "" {
		return id, err
	}
	_, err := b.api.NetworkCreate(ctx, b.bridgeName(), network.CreateOptions{
		Driver:     "bridge",
		EnableIPv6: new(false), // guests close it as a whole
		Labels:     b.labels(kindNetwork, nil),
		Options: map[string]string{
			"com.docker.network.bridge.enable_icc": "false",
			// One name on the host, which a firewall rule can use.
			"com.docker.network.bridge.name": b.interfaceName(),
		},
	})
	// Whether or not somebody else was faster, the oldest one is it.
	id, findErr := b.findBridge(ctx)
	if findErr != nil || id != "" {
		return id, findErr
	}
	if err != nil && strings.Contains(err.Error(), "address pool") {
		return "", session.Wrap(err, session.ResourceExhausted, "network: the engine has no address space left for a bridge; "+
			"the operator removes unused networks (`docker network prune`) or adds \"default-address-pools\" to daemon.json")
	}
	return "", engineErr("create network", err)
}

// bridgeName tells nothing of the installation: sandboxes see it.
func (b *Backend) bridgeName() string { return "mcp-sandbox-" + digest(9, b.opts.InstallationID) }

// interfaceName has at most the kernel's 15 bytes.
func (b *Backend) interfaceName() string { return "mcpsb-" + digest(9, b.opts.InstallationID) }

// findBridge gives the ID of the installation's bridge, or "".
func (b *Backend) findBridge(ctx context.Context) (string, error) {
	found, err := b.api.NetworkList(ctx, network.ListOptions{Filters: b.ours(session.LabelKind, kindNetwork)})
	if err != nil {
		return "", engineErr("list networks", err)
	}
	found = slices.DeleteFunc(found, func(n network.Summary) bool {
		return n.Name != b.bridgeName() || n.Options["com.docker.network.bridge.enable_icc"] != "false"
	})
	if len(found) == 0 {
		return "", nil
	}
	oldest := slices.MinFunc(found, func(x, y network.Summary) int {
		if c := x.Created.Compare(y.Created); c != 0 {
			return c
		}
		return strings.Compare(x.ID, y.ID)
	})
	return oldest.ID, nil
}

// closeNetwork is the guest's flag; without it nothing is closed.
const closeNetwork = "--close-network"

// networkArgs tell the guest of a sandbox with a network what to close.
func (b *Backend) networkArgs(ctx context.Context, img readyImage) ([]string, error) {
	denied, err := b.denied(ctx, img)
	if err != nil {
		return nil, err
	}
	args := []string{closeNetwork}
	if len(denied) > 0 {
		list := make([]string, len(denied))
		for i, p := range denied {
			list[i] = p.String()
		}
		args = append(args, "--deny", strings.Join(list, ","))
	}
	if names := b.platform.outerNames(); len(names) > 0 {
		args = append(args, "--deny-name", strings.Join(names, ","))
	}
	return args, nil
}

// networkOpen is the error of a sandbox whose guest could not close what it must
// not reach, and so did not start; nil where that was not the reason.
func (b *Backend) networkOpen(ctx context.Context, info container.InspectResponse) error {
	if info.State.ExitCode != guest.ExitNetwork || !slices.Contains(info.Config.Cmd, closeNetwork) {
		return nil
	}
	reason, err := tree{b, info.ID}.text(ctx, stateDir+"/"+guest.StartErrorFile)
	if err != nil || len(reason) == 0 {
		return nil //nolint:nilerr // then it is as any guest that did not start
	}
	return session.Errorf(session.FailedPrecondition, "network: %q is not possible on this engine, as the engine's host and metadata services "+
		"cannot be closed to the sandbox: %s; start the session with network %q", session.NetworkFull, reason, session.NetworkNone)
}
