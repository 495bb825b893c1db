package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// kind is one thing that is measured. once does it and tells how long it took;
// what it does before and after is not counted.
type kind struct {
	name string
	slow bool // some 0.1 s and more
	once func(ctx context.Context) (time.Duration, error)

	taken []time.Duration
}

// Names of the raw kinds, which the others are compared with.
const (
	rawExec   = "docker exec true"
	rawRun    = "docker run true"
	rawCommit = "docker commit"
)

// latencies has all kinds take turns. The order shifts from round to round, so
// that no kind always comes after the same other.
func latencies(ctx context.Context, l *lab, s size, r *Report) error {
	kinds := l.kinds()
	for range warmups {
		for _, k := range kinds {
			if _, err := k.once(ctx); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
		}
	}
	began := time.Now()
	for round := range s.rounds {
		for i := range kinds {
			k := kinds[(i+round)%len(kinds)]
			if k.slow && round%s.slowEvery != 0 || time.Since(began) > s.turnBudget {
				continue
			}
			took, err := k.once(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			k.taken = append(k.taken, took)
		}
	}
	stats := map[string]Stat{}
	for _, k := range kinds {
		stats[k.name] = stat(k.taken)
	}
	for _, pair := range [][2]string{
		{"run_command true", rawExec},
		{"read_file 4 KB", rawExec},
		{"write_file 4 KB", rawExec},
		{"start_session + first command", rawRun},
		{"snapshot", rawCommit},
	} {
		r.Latencies = append(r.Latencies, compare(pair[0], stats[pair[0]], pair[1], stats[pair[1]]))
	}
	return nil
}

func (l *lab) kinds() []*kind {
	content := strings.Repeat("0123456789abcde\n", fileBytes/16)
	file := args{"session_id": l.session, "path": "file"}
	written := args{"session_id": l.session, "path": "file", "content": content}
	return []*kind{
		{name: "write_file 4 KB", once: l.timed("write_file", written)}, // the first, to have something to read
		{name: "read_file 4 KB", once: l.timed("read_file", file)},
		{name: "run_command true", once: clocked(func(ctx context.Context) error { return l.runTrue(ctx, l.session) })},
		{name: rawExec, once: l.rawExec},
		{name: "start_session + first command", slow: true, once: l.startAndRun},
		{name: rawRun, slow: true, once: l.rawRun},
		{name: "snapshot", slow: true, once: l.snapshot},
		{name: rawCommit, slow: true, once: l.rawCommit},
	}
}

func (l *lab) timed(tool string, in args) func(context.Context) (time.Duration, error) {
	return clocked(func(ctx context.Context) error {
		_, err := l.call(ctx, tool, in)
		return err
	})
}

func clocked(do func(context.Context) error) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		err := do(ctx)
		return time.Since(began), err
	}
}

func (l *lab) startAndRun(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	id, err := l.start(ctx)
	if err == nil {
		err = l.runTrue(ctx, id)
	}
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	return took, l.end(ctx, id)
}

func (l *lab) snapshot(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	out, err := l.call(ctx, "snapshot", args{"session_id": l.session})
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	_, err = l.call(ctx, "delete_snapshot", args{"snapshot_id": out["snapshot_id"]})
	return took, err
}
