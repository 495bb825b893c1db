// Command faults puts the real system under load and kills its parts at random.
// `make faults` runs it.
//
// Temporal, worker and server run as processes of their own. Sessions are used
// by agents (load.go, steps.go) that send each call under its call ID until the
// answer is definite (client.go). A nemesis (nemesis.go) meanwhile kills and
// freezes processes, kills and removes containers and cuts streams; with
// --dockerd it has an engine of its own that it kills and whose disk it fills.
// Then all faults end, and what is there is held against what the agents were
// told (ledger.go, audit.go, leftovers.go):
//
//   - double effects: a call ID took effect twice, or after it was refused or
//     taken back by a restore. Each effect is a line with the call ID in it.
//   - lost acknowledged results: an effect, an output or an answer that a client
//     has seen is gone or another one.
//   - orphans: a process of a command that has ended, or anything at the engine
//     of a session that has ended.
//   - stuck sessions: no definite answer within --settle after the last fault,
//     or an end that nobody asked for.
//
// Each must be 0, or the exit code is 1. The seed decides what agents and nemesis
// do, and in which order each does it; how the two meet is up to the machine. A
// round uses processes, data dirs and an installation of its own, and seed+round
// as its seed: a failing round says how it is run again.
//
// It must find faults that are there: `make faults-planted` runs it on a guest
// that forgets call IDs (build tag plantedfault) and wants double effects.
//
// It ends by itself, also on SIGINT and SIGTERM, and removes all that it made.
// The exit code is 2 for a wrong command line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

type options struct {
	binary   string
	image    string
	seed     uint64
	rounds   int
	load     time.Duration // of a round
	settle   time.Duration
	sessions int
	faults   int // of a round; 0 is as many as fit into load
	kinds    string
	dockerd  bool
	json     bool
	logs     string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "faults:", err)
		return 2
	}
	progress := func(format string, a ...any) { _, _ = fmt.Fprintf(stderr, "faults: "+format+"\n", a...) }
	r := newReport(opts)
	for i := range opts.rounds {
		o := opts
		o.seed += uint64(i)
		progress("round %d of %d, seed %d", i+1, opts.rounds, o.seed)
		if err := round(ctx, o, r, progress); err != nil {
			r.Errors = append(r.Errors, fmt.Sprintf("round %d: %v", i+1, err))
			progress("%v", err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := r.show(opts.json, stdout); err != nil || r.failed() {
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("faults", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.binary, "binary", "bin/mcp-sandbox", "the built binary")
	f.StringVar(&o.image, "image", harness.TestImage, "image of the sandboxes; needs a shell and setsid")
	f.Uint64Var(&o.seed, "seed", 1, "decides what agents and nemesis do; the next round has the next seed")
	f.IntVar(&o.rounds, "rounds", 3, "rounds, each with processes and an installation of its own")
	f.DurationVar(&o.load, "for", time.Minute, "how long a round has load and faults")
	f.DurationVar(&o.settle, "settle", 4*time.Minute, "how long after the last fault a call may take to be answered")
	f.IntVar(&o.sessions, "sessions", 5, "agents at work, each with a session")
	f.IntVar(&o.faults, "faults", 0, "faults of a round, which then ends early; 0 is as many as fit")
	f.StringVar(&o.kinds, "kinds", "", "kinds of faults, with commas between (default all of: "+strings.Join(kindNames(true), ",")+")")
	f.BoolVar(&o.dockerd, "dockerd", false, "run a second dockerd and kill it, too; as root on Linux")
	f.BoolVar(&o.json, "json", false, "print JSON instead of the table")
	f.StringVar(&o.logs, "logs", "", "keep the logs of the processes in this directory")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.rounds < 1 || o.sessions < 1 || o.faults < 0:
		return o, errors.New("--rounds and --sessions must be positive, --faults at least 0")
	}
	_, err := chosenKinds(o)
	return o, err
}

func (r *Report) show(asJSON bool, stdout io.Writer) error {
	if !asJSON {
		return r.table(stdout)
	}
	e := json.NewEncoder(stdout)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
