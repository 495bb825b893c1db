package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
)

// rawConfig is a container as a program without mcp-sandbox would make it, with
// no network, as sandboxes have none: setting one up would only slow it down.
func (l *lab) rawConfig(cmd ...string) (*container.Config, *container.HostConfig) {
	key, value, _ := strings.Cut(l.label, "=")
	return &container.Config{Image: l.image, Entrypoint: []string{}, Cmd: cmd, Labels: map[string]string{key: value}},
		&container.HostConfig{NetworkMode: "none"}
}

// startRaw starts the container that raw calls go to. It has a changed file to
// commit, as the session has.
func (l *lab) startRaw(ctx context.Context) (id string, err error) {
	config, host := l.rawConfig("/bin/sh", "-c", fmt.Sprintf("head -c %d /dev/zero > /tmp/file; exec sleep 86400", fileBytes))
	created, err := l.api.ContainerCreate(ctx, config, host, nil, nil, "")
	if err != nil {
		return "", err
	}
	return created.ID, l.api.ContainerStart(ctx, created.ID, container.StartOptions{})
}

// rawExec is `docker exec CONTAINER true`, as the docker command does it: create,
// start attached, read to the end, ask for the exit code.
func (l *lab) rawExec(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	created, err := l.api.ContainerExecCreate(ctx, l.raw, container.ExecOptions{
		Cmd: []string{"true"}, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return 0, err
	}
	attached, err := l.api.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, attached.Reader)
	attached.Close()
	if err != nil {
		return 0, err
	}
	info, err := l.api.ContainerExecInspect(ctx, created.ID)
	if err == nil && (info.Running || info.ExitCode != 0) {
		err = fmt.Errorf("docker exec true: running %t, exit code %d", info.Running, info.ExitCode)
	}
	return time.Since(began), err
}

// rawRun is `docker run IMAGE true`; the removal is not counted.
func (l *lab) rawRun(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	config, host := l.rawConfig("true")
	created, err := l.api.ContainerCreate(ctx, config, host, nil, nil, "")
	if err != nil {
		return 0, err
	}
	ended, failed := l.api.ContainerWait(ctx, created.ID, container.WaitConditionNextExit)
	if err := l.api.ContainerStart(ctx, created.ID, container.StartOptions{}); err != nil {
		return 0, err
	}
	select {
	case err := <-failed:
		return 0, err
	case <-ended:
	}
	took := time.Since(began)
	return took, l.api.ContainerRemove(ctx, created.ID, container.RemoveOptions{Force: true})
}

// rawCommit is `docker commit CONTAINER`; the removal is not counted.
func (l *lab) rawCommit(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	made, err := l.api.ContainerCommit(ctx, l.raw, container.CommitOptions{Pause: true})
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	_, err = l.api.ImageRemove(ctx, made.ID, image.RemoveOptions{Force: true, PruneChildren: true})
	return took, err
}
