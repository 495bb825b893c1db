package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/mcp-sandbox/mcp-sandbox/examples/agents/scripted/localserver"
	"github.com/mcp-sandbox/mcp-sandbox/session"
	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

const (
	// The reaper comes often, and must not take what is just being made on a slow
	// machine.
	reapEvery  = 5 * time.Second
	reapMinAge = 20 * time.Second
	// leftoverGrace is how long what belongs to nobody may take to go: a worker may
	// have died in mid-removal, and is retried; the reaper takes the rest.
	leftoverGrace = 2*reapEvery + reapMinAge + 15*time.Second
)

// endAll ends the sessions and deletes the snapshots. Then nothing may be left.
func (r *roundRun) endAll(ctx context.Context) {
	for _, s := range r.book.sessions() {
		if err := endSession(ctx, r.caller, r.book, s, r.found); err != nil {
			r.found.stuck("session %s: %v", s.id, err)
		}
	}
	for _, id := range r.book.snapshots {
		a, err := r.caller.call(ctx, "delete-"+id, "delete_snapshot", harness.Args{"snapshot_id": id})
		if err != nil || a.code != "" && a.code != session.NotFound {
			r.found.stuck("snapshot %s is not deleted: %v %s", id, err, a.Text)
		}
	}
}

// leftovers finds what is left at the engine, and sessions that are listed.
func (r *roundRun) leftovers(ctx context.Context) error {
	grace, cancel := context.WithTimeout(ctx, leftoverGrace)
	defer cancel()
	var left []string
	err := poll(grace, func() (_ bool, err error) {
		left, err = r.left(ctx)
		return len(left) == 0, err
	}, func() string { return "leftovers" })
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, what := range left {
		r.found.orphan("left when all sessions had ended: %s", what)
	}
	return nil
}

func (r *roundRun) left(ctx context.Context) ([]string, error) {
	left, err := localserver.Labelled(ctx, r.lab.api, r.lab.ours())
	if err != nil {
		return nil, err
	}
	images, err := r.lab.api.ImageList(ctx, image.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", r.lab.ours()))})
	if err != nil {
		return nil, err
	}
	left = slices.DeleteFunc(left, func(what string) bool {
		return strings.HasPrefix(what, "image ") || strings.HasPrefix(what, "container ")
	})
	containers, err := r.lab.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", r.lab.ours()))})
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		left = append(left, fmt.Sprintf("%s container %s %v of session %q, %s", c.Labels[session.LabelKind], c.ID, c.Names, c.Labels[session.LabelSession], c.Status))
	}
	for _, i := range images {
		if i.Labels[session.LabelKind] != "derived" { // those that sandboxes are made of are kept for further sessions
			left = append(left, fmt.Sprintf("image %s %v, snapshot %s, call %s", i.ID, i.RepoTags, i.Labels[session.LabelSnapshot], i.Labels[session.LabelCall]))
		}
	}
	a, err := r.caller.call(ctx, "", "list_sessions", nil)
	sessions, _ := a.Structured["sessions"].([]any)
	for _, s := range sessions {
		info, _ := s.(map[string]any)
		id, _ := info["session_id"].(string)
		left = append(left, "session "+id+" is listed")
	}
	return left, err
}
