// Command scripted is an agent without a model: it does, over MCP, what a coding
// agent does in a sandbox, and prints a transcript. `make demo` runs it.
//
// It starts a server of its own, or uses a running one (--server, --token-file).
// The exit code is 0 when every step came out as the script says, 1 when one did
// not, 2 for a wrong command line. It ends what it started and removes what it
// made. agent.go is the part to copy: an MCP client in a page.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/examples/agents/scripted/localserver"
)

const (
	// workTimeout bounds the whole script, which takes some 5 s; a first session
	// on a slow machine takes most of a minute.
	workTimeout = 5 * time.Minute
	// tidyTimeout bounds the clearing up after a script that broke off.
	tidyTimeout = 30 * time.Second
)

// options are the command line's.
type options struct {
	binary    string // of a server of its own
	image     string
	server    string // URL of a running one, "" for a server of its own
	tokenFile string
	ui        string
	keep      bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with everything given; ctx ends with the user's ctrl-C.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "demo:", err)
		return 2
	}
	if err := demo(ctx, opts, stdin, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "demo failed:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("scripted", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.binary, "binary", "bin/mcp-sandbox", "server to start")
	f.StringVar(&o.image, "image", "", "image of the session; it needs python3 (default: the server's)")
	f.StringVar(&o.server, "server", "", "URL of a running server to use instead, such as http://127.0.0.1:8765/mcp")
	f.StringVar(&o.tokenFile, "token-file", "", "file with the token for --server")
	f.StringVar(&o.ui, "ui", "", "with --server: address of its Temporal UI, to print a link")
	f.BoolVar(&o.keep, "keep", false, "keep the server until Enter or ctrl-C, to look at Temporal's UI")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.server == "" && (o.tokenFile != "" || o.ui != ""):
		return o, errors.New("--token-file and --ui need --server")
	case o.server != "" && o.keep:
		return o, errors.New("--keep is for a server of the demo's own; one named by --server is never ended")
	}
	return o, nil
}

func demo(ctx context.Context, opts options, stdin io.Reader, stdout io.Writer) (err error) {
	out := &transcript{out: stdout}
	target, stop, err := connect(ctx, opts, out)
	if err != nil {
		return err
	}
	defer func() {
		if e := stop(); e != nil && err == nil {
			err = e
		}
	}()
	if err := script(ctx, target, opts.image, out); err != nil {
		return err
	}
	if opts.keep {
		out.note("\nThe server runs until you press Enter or ctrl-C.")
		waitForUser(ctx, stdin)
	}
	return nil
}

// target is a server to talk to.
type target struct {
	url, token string
	ui         string // link to Temporal's UI, "" if it is not known
	howToLook  string
}

// connect finds the server, or starts one that stop ends.
func connect(ctx context.Context, opts options, out *transcript) (target, func() error, error) {
	if opts.server != "" {
		t := target{url: opts.server, ui: opts.ui, howToLook: "the server printed the UI's address and token when it started"}
		if opts.tokenFile != "" {
			token, err := os.ReadFile(opts.tokenFile)
			if err != nil {
				return target{}, nil, err
			}
			t.token = strings.TrimSpace(string(token))
		}
		out.note("Server %s", t.url)
		return t, func() error { return nil }, nil
	}
	s, err := localserver.Start(ctx, opts.binary)
	if err != nil {
		return target{}, nil, err
	}
	out.note("Server %s, process %d, installation %s, started for this demo", s.URL, s.PID(), s.Installation)
	t := target{url: s.URL, token: s.Token, ui: s.UI, howToLook: "the link works while the server runs: make demo DEMO_FLAGS=--keep"}
	if opts.keep {
		t.howToLook = "the link works while the server runs"
	}
	stop := func() error {
		err := s.Close(ctx)
		if err == nil {
			out.note("\nServer ended, its data dir and its sandboxes removed.")
		}
		return err
	}
	return t, stop, nil
}

// script runs the agent and clears up after it, whatever came out.
func script(ctx context.Context, t target, image string, out *transcript) error {
	work, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	a, err := newAgent(work, t.url, t.token, out)
	if err != nil {
		return err
	}
	defer a.close()
	defer a.tidy(context.WithoutCancel(ctx))
	a.work(work, image)
	if a.err != nil {
		return a.err
	}
	out.summary(a, t)
	return nil
}

// waitForUser waits for Enter or the end of ctx. The end of stdin is no Enter:
// without a terminal only a signal ends it.
func waitForUser(ctx context.Context, stdin io.Reader) {
	enter := make(chan struct{})
	go func() {
		if _, err := bufio.NewReader(stdin).ReadString('\n'); err == nil {
			close(enter)
		}
	}()
	select {
	case <-enter:
	case <-ctx.Done():
	}
}
