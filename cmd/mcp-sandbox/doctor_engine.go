package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/containerd/errdefs"
	dockerclient "github.com/docker/docker/client"

	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
	"github.com/mcp-sandbox/mcp-sandbox/guest/embedded"
	defaultimage "github.com/mcp-sandbox/mcp-sandbox/images/default"
)

// checkEngine looks for the engine, its limits and the default image.
func (d *doctor) checkEngine(ctx context.Context) []finding {
	f := finding{Check: "engine", Status: verdictOK}
	const remedy = "start Docker (systemctl start docker, or Docker Desktop), or choose an engine by DOCKER_HOST or `docker context use`; in a checkout, make setup installs one"
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	host, err := docker.ResolveHost(d.getenv, home)
	if err != nil { // it says what to set
		f.Status, f.Detail = verdictFail, err.Error()
		return []finding{f}
	}
	backend, err := docker.New(ctx, docker.Options{
		Host: host, InstallationID: "doctor", HostID: "doctor", DefaultImage: d.defaultImage, Logger: d.log, Runtime: d.runtime,
		Guest: func(arch string) ([]byte, error) { // another check's matter
			d.arch = arch
			return []byte(arch), nil
		},
	})
	if err != nil {
		f.Status, f.Detail, f.Remedy = verdictFail, err.Error(), remedy
		if _, refused := errors.AsType[*docker.RefusedError](err); refused { // it says what to do
			f.Remedy = ""
		}
		return []finding{f, {Check: "default image", Status: verdictSkip, Detail: "no engine to ask"}}
	}
	defer func() { _ = backend.Close() }()
	if err := backend.Check(ctx); err != nil { // it names a remedy for each limit
		f.Status, f.Detail = verdictFail, operatorError(err).Error()
	} else {
		f.Detail = fmt.Sprintf("%s (from %s), linux/%s, limits memory, CPU and processes", host.Address, host.Source, d.arch)
	}
	return []finding{f, platformFinding(backend.Platform()), d.checkImage(ctx, host)}
}

// platformFinding says how far the kind of engine is supported. What makes it
// one to refuse is the engine check's to tell.
func platformFinding(p docker.Platform) finding {
	f := finding{Check: "platform", Status: verdictOK, Detail: fmt.Sprintf("%s: %s", p, p.Support())}
	var remedies []string
	for _, n := range p.Limits {
		f.Detail += "; " + n.Text
		if n.Remedy != "" {
			remedies = append(remedies, n.Remedy)
		}
	}
	if p.Support() != docker.Supported {
		f.Status = verdictWarn
	}
	f.Remedy = strings.Join(remedies, "; ")
	return f
}

// checkImage looks for the image of sessions that ask for none.
func (d *doctor) checkImage(ctx context.Context, host docker.Host) finding {
	f := finding{Check: "default image", Status: verdictOK, Detail: d.defaultImage}
	if strings.HasPrefix(host.Address, "ssh://") {
		f.Status, f.Detail = verdictSkip, "not looked for over ssh"
		return f
	}
	opts := []dockerclient.Opt{dockerclient.WithAPIVersionNegotiation(), dockerclient.WithHost(host.Address)}
	if host.CACert != "" || host.Cert != "" {
		opts = append(opts, dockerclient.WithTLSClientConfig(host.CACert, host.Cert, host.Key))
	}
	api, err := dockerclient.NewClientWithOpts(opts...)
	if err == nil {
		defer func() { _ = api.Close() }()
		_, err = api.ImageInspect(ctx, d.defaultImage)
	}
	switch {
	case err == nil:
	case !errdefs.IsNotFound(err):
		f.Status, f.Detail, f.Remedy = verdictFail, d.defaultImage+": "+err.Error(), "give an image's name as --default-image"
	case strings.HasPrefix(d.defaultImage, "mcp-sandbox/"): // made here, never pulled
		f.Status, f.Detail, f.Remedy = verdictFail, d.defaultImage+" is not on this engine", "mcp-sandbox image build"
		if d.defaultImage != defaultimage.Ref {
			f.Remedy += " --tag " + shellWord(d.defaultImage)
		}
	default:
		f.Status, f.Detail = verdictWarn, d.defaultImage+" is not on this engine; the first session pulls it"
		f.Remedy = "docker pull " + shellWord(d.defaultImage)
	}
	return f
}

// checkGuest looks whether this binary carries the guest for the engine.
func (d *doctor) checkGuest(context.Context) []finding {
	arch := d.arch
	if arch == "" {
		arch = runtime.GOARCH
	}
	f := finding{Check: "guest", Status: verdictOK, Detail: fmt.Sprintf("%s for linux/%s is built in", embedded.VersionOf(arch), arch)}
	if _, err := embedded.Binary(arch); err != nil {
		f.Status, f.Detail, f.Remedy = verdictFail, err.Error(), "use a binary that make build made, or a released one"
	}
	return []finding{f}
}
