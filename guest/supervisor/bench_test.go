package supervisor_test

import (
	"syscall"
	"testing"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/guest/supervisor"
)

// BenchmarkRun is the guest's own share of a call: fork, shell, journal, logs.
func BenchmarkRun(b *testing.B) {
	s, err := supervisor.New(supervisor.Options{Fence: fence, State: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for b.Loop() {
		c, err := s.Run(b.Context(), guest.RunRequest{CallID: callID(), Command: "true", WaitMS: 10_000, MaxOutput: 1000})
		if err != nil || *c.ExitCode != 0 {
			b.Fatal(c, err)
		}
	}
}

// BenchmarkShell is the floor under BenchmarkRun: fork, shell and wait, nothing
// else.
func BenchmarkShell(b *testing.B) {
	for b.Loop() {
		pid, err := syscall.ForkExec("/bin/bash", []string{"/bin/bash", "-c", "true"}, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			b.Fatal(err)
		}
	}
}
