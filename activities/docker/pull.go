package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	// pullReport is how often a pull's progress is logged.
	pullReport = 5 * time.Second
	// pullFirst is how long a registry may take to say anything at all, and
	// pullStall how long a pull may stand still.
	pullFirst = 30 * time.Second
	pullStall = 2 * time.Minute
)

// inspectOrPull gives an image, pulled when this host has none of that name. It
// is never pulled again: sandboxes of a tag stay alike until someone updates it.
func (b *Backend) inspectOrPull(ctx context.Context, ref string) (image.InspectResponse, error) {
	found, ok, err := b.inspectImage(ctx, ref)
	if err != nil || ok {
		return found, err
	}
	if ref == b.opts.DefaultImage && strings.HasPrefix(ref, "mcp-sandbox/") {
		// Built here, and not ours to look for in a public registry.
		return found, session.Errorf(session.NotFound, "the default image %q is not on this host; the operator builds it with `mcp-sandbox image build`", ref)
	}
	if err := b.pull(ctx, ref); err != nil {
		return found, err
	}
	found, ok, err = b.inspectImage(ctx, ref)
	if err == nil && !ok {
		err = fmt.Errorf("%w: image %s is gone right after it was pulled", errEngine, ref)
	}
	return found, err
}

// pull has no credentials: an image behind a login is pulled by the operator.
func (b *Backend) pull(ctx context.Context, ref string) error {
	b.log.InfoContext(ctx, "pulling image", "image", ref)
	bounded, cancel := context.WithTimeoutCause(ctx, b.opts.PullTimeout, errPullTime)
	defer cancel()
	watched, give := context.WithCancelCause(bounded)
	defer give(nil)
	silence := time.AfterFunc(pullFirst, func() { give(errNoRegistry) })
	defer silence.Stop()
	err := b.pullOnce(watched, ref, func() { silence.Reset(pullStall) })
	if err == nil {
		b.log.InfoContext(ctx, "pulled image", "image", ref)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(context.Cause(watched), errNoRegistry) {
		return pullError(ref, errNoRegistry)
	}
	if errors.Is(context.Cause(watched), errPullTime) {
		return session.Wrap(err, session.FailedPrecondition, "image %q could not be pulled within %s; "+
			"`docker pull` it on the host, then try again", ref, b.opts.PullTimeout)
	}
	return pullError(ref, err)
}

var (
	errPullTime   = errors.New("the pull took too long")
	errNoRegistry = errors.New("timeout: the registry is silent")
)

func (b *Backend) pullOnce(ctx context.Context, ref string, alive func()) error {
	body, err := b.api.ImagePull(ctx, ref, image.PullOptions{Platform: "linux/" + b.arch})
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	logged := time.Now()
	for decoder := json.NewDecoder(body); ; {
		var line struct{ ID, Status, Progress, Error string }
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		alive()
		if line.Error != "" {
			return errors.New(line.Error)
		}
		if time.Since(logged) > pullReport {
			logged = time.Now()
			b.log.InfoContext(ctx, "pulling image", "image", ref, "layer", line.ID, "status", line.Status, "progress", line.Progress)
		}
	}
}

// pullError sorts a refusal: all are final for the caller, who chose the image.
// Engines send most of them as text in the progress stream.
func pullError(ref string, err error) error {
	text := strings.ToLower(err.Error())
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	case errdefs.IsInvalidArgument(err), has("invalid reference format"):
		return session.Wrap(err, session.InvalidArgument, "image: %q is no image reference such as debian:bookworm-slim", ref)
	case has("no matching manifest", "does not match the specified platform"):
		return session.Wrap(err, session.InvalidArgument, "image %q does not exist for this host's platform; use an image that does", ref)
	case has("denied", "unauthorized", "manifest unknown", "does not exist", "not found: manifest", ": not found"):
		return session.Wrap(err, session.NotFound, "image %q does not exist, or needs a login; check the name, or `docker pull` it on the host", ref)
	case has("no such host", "server misbehaving", "name resolution", "dial tcp", "connection refused", "network is unreachable", "timeout", "deadline exceeded", "proxyconnect", "eof", "tls:"):
		return session.Wrap(err, session.NotFound, "image %q is not on this host and its registry cannot be reached; "+
			"use an image that is there, or `docker pull` it on the host", ref)
	case errdefs.IsNotFound(err), has("not found"):
		return session.Wrap(err, session.NotFound, "image %q is not in its registry; check the name, or `docker pull` it on the host", ref)
	}
	return session.Wrap(err, session.FailedPrecondition, "image %q could not be pulled (%s); `docker pull` it on the host, then try again", ref, err)
}
