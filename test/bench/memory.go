package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// memory measures what idle sessions hold: in the server, as the growth of its
// resident memory, which a garbage collection more or less moves by some MB; in
// the container, as the engine counts it. The sessions stay for throughput.
func memory(ctx context.Context, l *lab, _ size, r *Report) error {
	before, err := residentBytes(ctx, l.server.PID())
	if err != nil {
		return err
	}
	if r.idle, err = l.startMany(ctx, parallel); err != nil {
		return err
	}
	after, err := residentBytes(ctx, l.server.PID())
	if err != nil {
		return err
	}
	var held []int64
	for _, id := range r.idle {
		n, err := l.sandboxBytes(ctx, id)
		if err != nil {
			return err
		}
		held = append(held, n)
	}
	slices.Sort(held)
	raw, err := l.containerBytes(ctx, l.raw)
	r.Memory = Memory{
		Sessions:           parallel,
		ServerMB:           mb(after),
		ServerMBPerSession: mb(after-before) / parallel,
		SandboxMB:          mb(held[len(held)/2]),
		RawContainerMB:     mb(raw),
	}
	return err
}

func (l *lab) sandboxBytes(ctx context.Context, sessionID string) (int64, error) {
	found, err := l.api.ContainerList(ctx, container.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", session.LabelSession+"="+sessionID)),
	})
	if err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("session %s has %d running containers", sessionID, len(found))
	}
	return l.containerBytes(ctx, found[0].ID)
}

// containerBytes is what `docker stats` shows: without the page cache that can
// be dropped.
func (l *lab) containerBytes(ctx context.Context, id string) (int64, error) {
	answer, err := l.api.ContainerStatsOneShot(ctx, id)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	var s container.StatsResponse
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil {
		return 0, err
	}
	cache, ok := s.MemoryStats.Stats["total_inactive_file"] // cgroup v1
	if !ok {
		cache = s.MemoryStats.Stats["inactive_file"] // v2
	}
	return int64(s.MemoryStats.Usage - min(cache, s.MemoryStats.Usage)), nil //nolint:gosec // bytes of memory fit
}

// residentBytes is a process's resident memory, from /proc or else from ps.
func residentBytes(ctx context.Context, pid int) (int64, error) {
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil { //nolint:gosec // a number
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				return kilobytes(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			}
		}
	}
	out, err := exec.CommandContext(ctx, "ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output() //nolint:gosec // a number
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return kilobytes(strings.TrimSpace(string(out)))
}

func kilobytes(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n << 10, err
}

func mb(n int64) float64 { return float64(n) / (1 << 20) }
