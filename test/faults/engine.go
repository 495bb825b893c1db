package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	docker "github.com/docker/docker/client"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// engine looks at, and into, sandboxes past the system under test.
type engine struct {
	api  *docker.Client
	ours string // the label of the installation
}

var errNoContainer = errors.New("no container")

// container is a session's newest that runs.
func (e *engine) container(ctx context.Context, sessionID string) (string, error) {
	list, err := e.api.ContainerList(ctx, container.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", e.ours), filters.Arg("label", session.LabelSession+"="+sessionID)),
	})
	switch {
	case err != nil:
		return "", err
	case len(list) == 0:
		return "", errNoContainer
	}
	return list[0].ID, nil
}

func (e *engine) kill(ctx context.Context, sessionID string) error {
	id, err := e.container(ctx, sessionID)
	if err != nil {
		return err
	}
	return e.api.ContainerKill(ctx, id, "KILL")
}

func (e *engine) remove(ctx context.Context, sessionID string) error {
	id, err := e.container(ctx, sessionID)
	if err != nil {
		return err
	}
	return e.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
}

// cut kills the program at the sandbox's end of the stream between host and
// guest. It goes through the engine, not by a process ID of this machine.
func (e *engine) cut(ctx context.Context, sessionID string) error {
	id, err := e.container(ctx, sessionID)
	if err != nil {
		return err
	}
	// Its own shell's command line begins with another word.
	const script = `for p in /proc/[0-9]*; do
	case "$(tr '\0' ' ' 2>/dev/null <$p/cmdline)" in "/.sandbox/guest dial-stdio "*) kill -9 ${p#/proc/} && echo cut;; esac
done`
	created, err := e.api.ContainerExecCreate(ctx, id, container.ExecOptions{
		User: "0", Cmd: []string{"/bin/sh", "-c", script}, AttachStdout: true, AttachStderr: true, Tty: true, // one stream
	})
	if err != nil {
		return err
	}
	attached, err := e.api.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{Tty: true})
	if err != nil {
		return err
	}
	defer attached.Close()
	out, err := io.ReadAll(attached.Reader)
	if err == nil && !strings.Contains(string(out), "cut") {
		return fmt.Errorf("no stream: %q", out)
	}
	return err
}

// processes gives the command lines in a sandbox; none when it does not run.
func (e *engine) processes(ctx context.Context, sessionID string) []string {
	id, err := e.container(ctx, sessionID)
	if err != nil {
		return nil
	}
	top, err := e.api.ContainerTop(ctx, id, []string{"-eo", "pid,args"})
	if err != nil {
		return nil
	}
	column := slices.IndexFunc(top.Titles, func(t string) bool { return t == "COMMAND" || t == "CMD" })
	var all []string
	for _, p := range top.Processes {
		if column >= 0 && column < len(p) {
			all = append(all, p[column])
		}
	}
	return all
}
