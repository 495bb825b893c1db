package localserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/mcp-sandbox/mcp-sandbox/activities/docker"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// sweepTimeout bounds the clearing of the engine.
const sweepTimeout = time.Minute

// Engine gives a client of the engine that a server with this environment uses.
// An engine behind ssh:// is not supported here.
func Engine() (*client.Client, error) {
	home, _ := os.UserHomeDir()
	host, err := docker.ResolveHost(os.Getenv, home)
	if err != nil {
		return nil, err
	}
	opts := []client.Opt{client.WithAPIVersionNegotiation()}
	if host.Address != "" {
		opts = append(opts, client.WithHost(host.Address))
	}
	if host.CACert != "" || host.Cert != "" {
		opts = append(opts, client.WithTLSClientConfig(host.CACert, host.Cert, host.Key))
	}
	return client.NewClientWithOpts(opts...)
}

// Labelled lists what carries a label at the engine. Images come as "image ID",
// the rest with the kind and the name.
func Labelled(ctx context.Context, api *client.Client, label string) ([]string, error) {
	var found []string
	err := each(ctx, api, label, func(kind, id string) error {
		found = append(found, kind+" "+id)
		return nil
	})
	return found, err
}

// Remove removes what carries a label at the engine.
func Remove(ctx context.Context, api *client.Client, label string) error {
	return each(ctx, api, label, func(kind, id string) error {
		var err error
		switch kind {
		case "container":
			err = api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		case "volume":
			err = api.VolumeRemove(ctx, id, true)
		case "network":
			err = api.NetworkRemove(ctx, id)
		case "image":
			_, err = api.ImageRemove(ctx, id, image.RemoveOptions{Force: true, PruneChildren: true})
		}
		if errdefs.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// each visits containers first and images last: what is in use goes before what
// it uses.
func each(ctx context.Context, api *client.Client, label string, visit func(kind, id string) error) error {
	labelled := filters.NewArgs(filters.Arg("label", label))
	var errs []error
	see := func(kind, id string) {
		if err := visit(kind, id); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", kind, id, err))
		}
	}
	containers, err := api.ContainerList(ctx, container.ListOptions{All: true, Filters: labelled})
	errs = append(errs, err)
	for _, c := range containers {
		see("container", c.ID)
	}
	volumes, err := api.VolumeList(ctx, volume.ListOptions{Filters: labelled})
	errs = append(errs, err)
	for _, v := range volumes.Volumes {
		see("volume", v.Name)
	}
	networks, err := api.NetworkList(ctx, network.ListOptions{Filters: labelled})
	errs = append(errs, err)
	for _, n := range networks {
		see("network", n.ID)
	}
	images, err := api.ImageList(ctx, image.ListOptions{All: true, Filters: labelled})
	errs = append(errs, err)
	for _, i := range images {
		see("image", i.ID)
	}
	return errors.Join(errs...)
}

func sweep(ctx context.Context, installation string) error {
	api, err := Engine()
	if err != nil {
		return err
	}
	defer func() { _ = api.Close() }()
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return Remove(ctx, api, session.LabelInstallation+"="+installation)
}
