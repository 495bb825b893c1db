// Command mcp-sandbox gives LLM agents durable sandboxes over MCP.
//
// The files: root.go and config.go hold what is common to the commands' flags
// and where their values come from. Each command has a file of its name:
// serve.go, worker.go, temporal.go, sessions.go and so on. temporalconn.go,
// hostworker.go and front.go are the parts of a server; connect.go and output.go
// those of the commands that look at one. Everything is wired here and nowhere
// else; libraries below read no environment and print nothing.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

// process is what a command may use of the process around it.
type process struct {
	args   []string
	getenv func(string) string
	parent func() int // the parent's process ID
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, process{args: os.Args[1:], getenv: os.Getenv, parent: os.Getppid, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr})
	stop()
	os.Exit(code)
}

// run performs a command. Exit codes: 0 done, 1 it could not be done, 2 the
// command line or the configuration is wrong.
func run(ctx context.Context, p process) int {
	root := newRoot(p)
	root.SetArgs(p.args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(p.stderr, "mcp-sandbox: "+err.Error())
	return exitCode(err)
}
