// Command bench measures what a durable call costs: mcp-sandbox through MCP over
// HTTP against the raw Docker Engine through its Go client, in one run on one
// machine. `make bench` runs it.
//
// The kinds that are compared take turns, so that what else the machine does
// falls on all of them alike: trust the ratios more than the milliseconds. The
// table is on stdout, progress on stderr. It starts a server of its own and
// removes all that it made. The exit code is 1 when something failed or was
// left, 2 for a wrong command line; no figure makes it fail.
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
	"syscall"
	"time"
)

type options struct {
	binary string
	image  string
	json   bool
	out    string
	size   size
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
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	progress := func(format string, a ...any) { _, _ = fmt.Fprintf(stderr, "bench: "+format+"\n", a...) }
	r, err := measure(ctx, opts, progress)
	if err == nil {
		err = show(r, opts, stdout)
	}
	if err != nil {
		progress("%v", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{size: full}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.binary, "binary", "bin/mcp-sandbox", "server to measure")
	f.StringVar(&o.image, "image", "mcp-sandbox/default:latest", "image of sandboxes and of the raw containers")
	f.BoolVar(&o.json, "json", false, "print JSON instead of the table; all figures in the units that their names say")
	f.StringVar(&o.out, "out", "", "also write the JSON to this file")
	smaller := f.Bool("quick", false, "fewer samples: under 40 s, where all of it takes up to 3 minutes")
	calls := f.Int("calls", 0, fmt.Sprintf("calls that make a session old (default %d, %d with --quick)", full.calls, quick.calls))
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if *smaller {
		o.size = quick
	}
	if *calls < 0 {
		return o, errors.New("--calls must be positive")
	}
	if *calls > 0 {
		o.size.calls, o.size.agingBudget = *calls, 0
	}
	return o, nil
}

// measure opens the lab, runs the phases and closes it again.
func measure(ctx context.Context, opts options, progress func(string, ...any)) (_ *Report, err error) {
	began, before := time.Now(), load()
	l, err := open(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx), progress)) }()
	r := &Report{Started: began.UTC().Truncate(time.Second), Version: l.version, Machine: machine(l.engine, opts.image)}
	r.Machine.LoadBefore = before
	for _, phase := range []struct {
		name string
		do   func(context.Context, *lab, size, *Report) error
	}{
		{"latencies, by turns", latencies},
		{"memory of idle sessions", memory},
		{"calls per second, by turns", throughput},
		{fmt.Sprintf("a session that had %d calls", opts.size.calls), aging},
	} {
		progress("%s", phase.name)
		if err := phase.do(ctx, l, opts.size, r); err != nil {
			return nil, fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	r.Machine.LoadAfter = load()
	r.TookSeconds = time.Since(began).Seconds()
	return r, nil
}

func show(r *Report, opts options, stdout io.Writer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if opts.out != "" {
		if err := os.WriteFile(opts.out, text, 0o600); err != nil { //nolint:gosec // where the user said
			return err
		}
	}
	if opts.json {
		_, err = stdout.Write(text)
		return err
	}
	return r.table(stdout)
}
