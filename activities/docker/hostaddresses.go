package docker

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/pkg/stdcopy"
)

const (
	// hostAddressesFor is how long the addresses of the engine's host are taken
	// to be the same, unless the engine's networks change.
	hostAddressesFor = time.Minute
	// hostAddressesWithin bounds asking for them; it takes half a second.
	hostAddressesWithin = 20 * time.Second
)

// hostAddresses remembers the addresses of the engine's host.
type hostAddresses struct {
	turn     chan struct{} // held by who asks, or reads
	known    []netip.Prefix
	asked    time.Time
	networks string // that the engine had then
}

// denied lists what a sandbox with a network must not reach beside what its
// guest finds by itself: every address of the engine's host, its other bridges,
// and what the operator named.
func (b *Backend) denied(ctx context.Context, img readyImage) ([]netip.Prefix, error) {
	networks, err := b.api.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return nil, engineErr("list networks", err)
	}
	subnets, fingerprint := bridges(networks)
	select {
	case b.host.turn <- struct{}{}:
		defer func() { <-b.host.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if b.host.networks != fingerprint || time.Since(b.host.asked) > hostAddressesFor {
		found, err := b.askHostAddresses(ctx, img)
		if err != nil {
			return nil, err
		}
		b.host.known, b.host.asked, b.host.networks = found, time.Now(), fingerprint
	}
	denied := slices.Concat(subnets, b.opts.DenyAddresses, b.host.known)
	for _, n := range b.platform.outerNetworks() {
		denied = append(denied, netip.MustParsePrefix(n))
	}
	return denied, nil
}

// bridges gives the subnets of the engine's bridges, whose gateways are its
// host, and a text that changes when there are others. A network of another
// driver may be a part of the world that sandboxes are to reach.
func bridges(networks []network.Summary) (subnets []netip.Prefix, fingerprint string) {
	var ids strings.Builder
	for _, n := range networks {
		ids.WriteString(n.ID)
		if n.Driver != "bridge" {
			continue
		}
		for _, c := range n.IPAM.Config {
			if p, err := netip.ParsePrefix(c.Subnet); err == nil {
				subnets = append(subnets, p)
			}
		}
	}
	return subnets, ids.String()
}

// askHostAddresses runs the guest for a moment on the host's network, without any
// other right. That is right for remote engines too, for virtual machines, and
// for a server that itself runs in a container.
func (b *Backend) askHostAddresses(ctx context.Context, img readyImage) ([]netip.Prefix, error) {
	ctx, cancel := context.WithTimeout(ctx, hostAddressesWithin)
	defer cancel()
	host := &container.HostConfig{
		NetworkMode: "host",
		// A file of root's needs that under another user namespace.
		CapDrop: []string{"ALL"}, CapAdd: []string{"DAC_OVERRIDE"}, SecurityOpt: []string{"no-new-privileges"},
		LogConfig: container.LogConfig{Type: "none"}, Init: new(false),
	}
	if b.platform.Remapped {
		host.UsernsMode = "host" // else the engine refuses the host's network
	}
	for _, target := range img.volumes {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeTmpfs, Target: target})
	}
	created, err := b.api.ContainerCreate(ctx, &container.Config{
		Image: img.id, User: "0", Entrypoint: []string{guestPath}, Cmd: []string{"addresses"}, AttachStdout: true, AttachStderr: true,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, Labels: b.labels(kindBuild, nil),
	}, host, nil, nil, "")
	if err != nil {
		return nil, engineErr("create a container that tells the host's addresses", err)
	}
	defer b.discard(ctx, created.ID)
	text, err := b.outputOf(ctx, created.ID)
	if err != nil {
		return nil, engineErr("ask for the host's addresses", err)
	}
	var found []netip.Prefix
	for line := range strings.FieldsSeq(text) {
		a, err := netip.ParseAddr(line)
		if err != nil {
			return nil, fmt.Errorf("%w: ask for the host's addresses: %w", errEngine, err)
		}
		found = append(found, netip.PrefixFrom(a, a.BitLen()))
	}
	return found, nil
}

// outputOf starts a created container and gives what it writes to stdout until
// it ends, which must be well.
func (b *Backend) outputOf(ctx context.Context, id string) (string, error) {
	stream, err := b.api.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return "", err
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, stream.Close) // a read knows no context
	defer stop()
	ended, failed := b.api.ContainerWait(ctx, id, container.WaitConditionNextExit)
	if err := b.api.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	if _, err := stdcopy.StdCopy(&stdout, &stderr, stream.Reader); err != nil {
		return "", err
	}
	select {
	case end := <-ended:
		if end.StatusCode != 0 {
			return "", fmt.Errorf("exit code %d: %s", end.StatusCode, strings.TrimSpace(stderr.String()))
		}
		return stdout.String(), nil
	case err := <-failed:
		return "", err
	}
}
