package main_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// `make setup` makes the images: the default one has bash and procps, busybox
// only /bin/sh and no home.
const (
	image        = "mcp-sandbox/default:latest"
	busyboxImage = "mcp-sandbox/test-busybox:latest"
)

// box is a container with the guest as PID 1.
type box struct {
	*guest.Client
	name  string
	fence guest.Fence
}

// needDocker skips, or fails where MCP_SANDBOX_REQUIRE asks for it.
func needDocker(t *testing.T, image string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "docker", "image", "inspect", image).CombinedOutput(); err != nil {
		message := fmt.Sprintf("needs a Docker engine and the image %s: run `make setup` (%s)", image, strings.TrimSpace(string(out)))
		if strings.Contains(os.Getenv("MCP_SANDBOX_REQUIRE"), "docker") {
			t.Fatal(message)
		}
		t.Skip(message)
	}
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	require.NoError(t, err, "docker %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

func startBox(t *testing.T, extra ...string) *box {
	t.Helper()
	return startImage(t, image, extra...)
}

func startImage(t *testing.T, image string, extra ...string) *box {
	t.Helper()
	needDocker(t, image)
	b := &box{name: "guest-test-" + strings.ToLower(rand.Text()[:8]), fence: guest.Fence{Session: "s_docker", Incarnation: 1}}
	args := append([]string{
		"run", "-d", "--name", b.name, "--user", "0:0", "--network", "none", "--pids-limit", "256", "-m", "256m", "--memory-swap", "256m",
		"--cap-drop", "ALL", "--cap-add", "SETUID", "--cap-add", "SETGID", "--cap-add", "KILL", "--cap-add", "CHOWN",
		"--security-opt", "no-new-privileges", "-v", binary + ":/.sandbox/guest:ro", "--entrypoint", "/.sandbox/guest",
	}, extra...)
	args = append(args, image, "init", "--session", b.fence.Session, "--incarnation", "1")
	docker(t, args...)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := exec.Command("docker", "logs", "--tail", "60", b.name).CombinedOutput()
			state, _ := exec.Command("docker", "inspect", "-f", "{{json .State}}", b.name).CombinedOutput()
			t.Logf("the guest's log:\n%s%s", out, state)
		}
		_ = exec.Command("docker", "rm", "-f", "-v", b.name).Run()
	})
	b.Client = guest.NewClient(dialStdio("docker", "exec", "-i", b.name, "/.sandbox/guest", "dial-stdio"), b.fence, guest.ClientOptions{})
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (b *box) run(t *testing.T, command string, change ...func(*guest.RunRequest)) guest.Command {
	t.Helper()
	req := guest.RunRequest{CallID: callID(), Command: command, WaitMS: 30_000, MaxOutput: 32 << 10}
	for _, c := range change {
		c(&req)
	}
	got, err := b.Run(t.Context(), req)
	require.NoError(t, err, "%s", command)
	return got
}

// noProcess checks with the engine's eyes that a command line is nowhere.
func (b *box) noProcess(t *testing.T, what string) {
	t.Helper()
	require.NotContains(t, docker(t, "top", b.name, "-eo", "pid,args"), what)
}

func TestContainer(t *testing.T) {
	b := startBox(t)

	t.Run("fast", func(t *testing.T) {
		b.run(t, "true")
		const n = 200
		start := time.Now()
		for range n {
			b.run(t, "true")
		}
		t.Logf("run true: %s each", time.Since(start)/n)
	})
	t.Run("identity", func(t *testing.T) { // F2
		got := b.run(t, "id -u; id -g; pwd; echo $HOME $USER; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status; until grep 500 /proc/self/oom_score_adj; do :; done; cat /proc/1/oom_score_adj; ls /.sandbox/state; cat /proc/1/environ")
		out := string(got.Stdout.Head)
		require.Contains(t, out, "1000\n1000\n/home/sandbox\n/home/sandbox sandbox\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n500\n0\n")
		require.Contains(t, string(got.Stderr.Head), "/.sandbox/state")
		require.NotEqual(t, 0, *got.ExitCode)
	})
	t.Run("setsid escape", func(t *testing.T) {
		got := b.run(t, "setsid sh -c 'trap \"\" TERM; sleep 1234' & (setsid sleep 1234 &) ; sleep 30; touch /tmp/late",
			func(r *guest.RunRequest) { r.TimeoutMS = 500 })
		require.Equal(t, guest.StatusTimedOut, got.Status)
		b.noProcess(t, "sleep 1234")
		require.NotEqual(t, 0, *b.run(t, "test -e /tmp/late").ExitCode)
	})
	t.Run("random bytes", func(t *testing.T) { // B6
		got := b.run(t, "head -c 300000 /dev/urandom | tee /tmp/r; sha256sum /tmp/r >&2")
		require.EqualValues(t, 300_000, got.Stdout.Total)
		var all []byte
		for len(all) < 300_000 {
			c, err := b.Output(t.Context(), guest.OutputRequest{CallID: got.CallID, Stream: guest.Stdout, Offset: int64(len(all)), MaxBytes: 100_000})
			require.NoError(t, err)
			all = append(all, c.Data...)
		}
		require.Equal(t, strings.Fields(string(got.Stderr.Head))[0], sha(all))
	})
	t.Run("no zombies", func(t *testing.T) { // D1
		b.run(t, "for i in $(seq 100); do (true &) ; done; true")
		require.Eventually(t, func() bool {
			return !strings.Contains(docker(t, "top", b.name, "-eo", "pid,stat,args"), "defunct")
		}, 5*time.Second, 50*time.Millisecond)
	})
	t.Run("memory", func(t *testing.T) { // B13
		got := b.run(t, "exec tail /dev/zero")
		require.Equal(t, "KILL", got.Signal)
		require.True(t, got.OOMKilled)
		got = b.run(t, "for i in $(seq 40); do (x=$(head -c 12000000 /dev/zero | tr '\\0' a); sleep 1) & done; wait")
		require.Equal(t, guest.StatusExited, got.Status)
		require.True(t, got.OOMKilled)
		require.Zero(t, *b.run(t, "true").ExitCode)
	})
	t.Run("memory, and calls beside", func(t *testing.T) { // A12
		hog := b.run(t, "while :; do for i in $(seq 40); do (x=$(head -c 12000000 /dev/zero | tr '\\0' a); sleep 0.2) & done; wait; done",
			func(r *guest.RunRequest) { r.WaitMS = 0 })
		var others sync.WaitGroup
		for range 20 {
			others.Go(func() {
				for range 10 {
					_, err := b.Run(t.Context(), guest.RunRequest{CallID: callID(), Command: "echo hi", WaitMS: 5000, MaxOutput: 100})
					if code := guest.CodeOf(err); err != nil && code != guest.CodeExhausted {
						t.Errorf("beside a memory hog: %v", err)
					}
				}
			})
		}
		others.Wait()
		_, err := b.Stop(t.Context(), guest.StopRequest{CallID: callID(), CommandID: hog.CallID})
		require.NoError(t, err)
		require.Equal(t, "hi\n", string(b.run(t, "echo hi").Stdout.Head))
	})
	t.Run("endless output", func(t *testing.T) { // B8
		got := b.run(t, "yes", func(r *guest.RunRequest) { r.TimeoutMS = 3000 })
		require.Equal(t, guest.StatusTimedOut, got.Status)
		require.EqualValues(t, 64<<20, got.Stdout.Logged)
		require.Greater(t, got.Stdout.Total, got.Stdout.Logged)
		u, err := b.Usage(t.Context())
		require.NoError(t, err)
		t.Logf("yes for 3 s: %d MiB; guest and page cache %d MiB", got.Stdout.Total>>20, u.MemoryBytes>>20)
	})
	t.Run("fork bomb", func(t *testing.T) { forkBomb(t, b) }) // A12
	t.Run("files", func(t *testing.T) {                       // F5
		_, err := b.WriteFile(t.Context(), guest.WriteFileRequest{CallID: callID(), Path: "a/b.txt", Content: []byte("x\n")})
		require.NoError(t, err)
		start := time.Now()
		f, err := b.ReadFile(t.Context(), guest.ReadFileRequest{Path: "a/b.txt", MaxBytes: 1000})
		require.NoError(t, err)
		require.Equal(t, "x\n", string(f.Content))
		t.Logf("read_file: %s", time.Since(start))
		require.Equal(t, "1000:1000 644\n", string(b.run(t, "stat -c '%u:%g %a' a/b.txt").Stdout.Head))
		b.run(t, "ln -s /.sandbox/state/journal j; ln -s /etc/shadow s; ln -s /proc/1/environ e; ln -s /etc/passwd p")
		for _, link := range []string{"j", "s", "e"} {
			_, err = b.ReadFile(t.Context(), guest.ReadFileRequest{Path: link, MaxBytes: 1000})
			require.Equal(t, guest.CodePermission, guest.CodeOf(err), "%s: %v", link, err)
		}
		_, err = b.WriteFile(t.Context(), guest.WriteFileRequest{CallID: callID(), Path: "p", Content: []byte("x"), Append: true})
		require.Equal(t, guest.CodePermission, guest.CodeOf(err), "%v", err)
	})
	t.Run("usage", func(t *testing.T) {
		u, err := b.Usage(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 256<<20, u.MemoryLimitBytes)
		require.Equal(t, 256, u.PIDsLimit)
		require.Positive(t, u.PIDs)
		require.Positive(t, u.CPUSeconds)
	})
	t.Run("end", func(t *testing.T) { // D2
		b.run(t, "sleep 1000", func(r *guest.RunRequest) { r.WaitMS = 0 })
		start := time.Now()
		docker(t, "stop", "-t", "10", b.name)
		require.Less(t, time.Since(start), 2*time.Second)
		require.Equal(t, "0", docker(t, "inspect", "-f", "{{.State.ExitCode}}", b.name))
	})
}

// The least a sandbox is given: the guest outlives whatever happens beside it.
func TestSmallContainer(t *testing.T) { // B13
	b := startBox(t, "-m", "64m", "--memory-swap", "64m", "--pids-limit", "64")
	for range 5 {
		var others sync.WaitGroup
		for range 10 {
			others.Go(func() {
				_, err := b.Run(t.Context(), guest.RunRequest{CallID: callID(), Command: "echo hi", WaitMS: 5000, MaxOutput: 100})
				if code := guest.CodeOf(err); err != nil && code != guest.CodeExhausted {
					t.Errorf("beside a memory hog: %v", err)
				}
			})
		}
		got := b.run(t, "exec tail /dev/zero")
		require.Equal(t, "KILL", got.Signal)
		require.True(t, got.OOMKilled)
		others.Wait()
	}
	u, err := b.Usage(t.Context())
	require.NoError(t, err)
	t.Logf("in use at rest: %.1f MiB, %d tasks", float64(u.MemoryBytes)/(1<<20), u.PIDs)
	hello, err := b.Hello(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, hello.BootID)
}

func TestImageWithoutBash(t *testing.T) {
	b := startImage(t, busyboxImage)
	require.Equal(t, "sh 1000 /home/sandbox /home/sandbox\n", string(b.run(t, "echo ${0##*/} $(id -u) $HOME $PWD").Stdout.Head))
	long := "echo $0; cat; " + strings.Repeat("# padding\n", 20_000) + "echo end; exit 4" // E5
	got := b.run(t, long, func(r *guest.RunRequest) { r.Stdin = []byte("in\n") })
	require.Equal(t, "/bin/sh\nin\nend\n", string(got.Stdout.Head), string(got.Stderr.Head))
	require.Equal(t, 4, *got.ExitCode)
	_, err := b.WriteFile(t.Context(), guest.WriteFileRequest{CallID: callID(), Path: "f", Content: []byte("x")})
	require.NoError(t, err)
}

func forkBomb(t *testing.T, b *box) {
	t.Helper()
	bomb := b.run(t, ":(){ :|:& };:; sleep 1000", func(r *guest.RunRequest) { r.WaitMS = 0 })
	var exhausted error
	require.Eventually(t, func() bool {
		_, exhausted = b.Run(t.Context(), guest.RunRequest{CallID: callID(), Command: "true", WaitMS: 100, MaxOutput: 100})
		return guest.CodeOf(exhausted) == guest.CodeExhausted
	}, 20*time.Second, time.Millisecond)
	require.ErrorContains(t, exhausted, "256 processes")
	var others sync.WaitGroup // none of them hangs, and none ends the guest
	for range 20 {
		others.Go(func() {
			_, err := b.Run(t.Context(), guest.RunRequest{CallID: callID(), Command: "echo hi", WaitMS: 2000, MaxOutput: 100})
			if code := guest.CodeOf(err); err != nil && code != guest.CodeExhausted {
				t.Errorf("beside a fork bomb: %v", err)
			}
		})
	}
	others.Wait()
	start := time.Now()
	got, err := b.Stop(t.Context(), guest.StopRequest{CallID: callID(), CommandID: bomb.CallID, Signal: "KILL"})
	require.NoError(t, err)
	require.Equal(t, guest.StatusStopped, got.Status)
	t.Logf("fork bomb stopped in %s", time.Since(start))
	require.Equal(t, "hi\n", string(b.run(t, "echo hi").Stdout.Head))
}
