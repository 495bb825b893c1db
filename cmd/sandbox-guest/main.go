// Command sandbox-guest is the program inside every sandbox.
//
//	sandbox-guest init ...       PID 1: package supervisor behind a socket
//	sandbox-guest dial-stdio     stdin and stdout joined to that socket
//	sandbox-guest file-op        one file operation as the sandbox user
//	sandbox-guest addresses      the IPv4 addresses of its network namespace
//	sandbox-guest version        the version, as Hello tells it
//
// It is static (CGO_ENABLED=0), stands on the standard library and x/sys alone,
// and imports neither session nor Temporal. Hosts never run it themselves: it is
// embedded into mcp-sandbox and put into the sandbox's image.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
)

// The main goroutine stays on the main thread. What threads of a special kind do
// (another user's identity, another nice value) is on others, and /proc/1 shows
// what the guest itself has.
func init() { runtime.LockOSThread() }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox-guest:", err)
		os.Exit(exitCode(err))
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("use one of: " + commands)
	}
	if args[0] == "init" {
		return runInit(args[1:])
	}
	// An exec gets all that the container was given, for its start alone.
	if err := dropSetup(); err != nil {
		return err
	}
	switch args[0] {
	case "dial-stdio":
		return runDialStdio(args[1:])
	case "file-op":
		return runFileOp(args[1:])
	case "addresses":
		return runAddresses()
	case "version":
		_, err := fmt.Fprintln(os.Stdout, version())
		return err
	}
	return fmt.Errorf("unknown command %q: use one of %s", args[0], commands)
}

const commands = "init, dial-stdio, file-op, addresses, version"

// version is the first 12 hex digits of this binary's SHA-256, as in
// embedded.VersionOf: a host can tell whether the guest is the one it carries.
var version = sync.OnceValue(func() string {
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return "unknown"
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "unknown"
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
})
