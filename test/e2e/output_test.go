package e2e_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// What becomes of what commands print.
func TestOutputCases(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	for name, test := range map[string]func(*testing.T, *harness.Server){
		"B1 streams and exit code":               b1Streams,
		"B3 large output is cut and counted":     b3Cut,
		"B4 no cut splits a character":           b4Characters,
		"B6 bytes that are not UTF-8":            b6Latin,
		"B6 random bytes":                        b6Random,
		"B8 a line without an end":               b8Line,
		"B8 output without an end":               b8Endless,
		"B8 output without an end, never read":   b8Unread,
		"B10 lines end as they were written":     b10Lines,
		"B12 what was printed before a timeout":  b12Timeout,
		"B13 the memory limit is named":          b13Memory,
		"B13 the memory limit and a whole shell": b13Shell,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

func b1Streams(t *testing.T, s *harness.Server) {
	c := s.Client()
	r := c.Run(t, c.StartSession(t, nil), "echo out; echo err >&2; exit 3")
	require.Equal(t, "exited", r.Str("status"))
	require.Equal(t, "out\n", r.Str("stdout"))
	require.Equal(t, "err\n", r.Str("stderr"))
	require.Equal(t, 3, r.Num("exit_code"))
	require.False(t, r.IsError)
	require.Contains(t, r.Text, "exit code 3")
}

func b3Cut(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	var all strings.Builder
	for i := range 200_000 {
		fmt.Fprintln(&all, i+1)
	}
	r := c.Run(t, id, "seq 1 200000; echo 'FATAL: linker error' >&2; exit 2")
	require.Equal(t, 2, r.Num("exit_code"))
	require.Equal(t, all.Len(), r.Num("stdout_bytes"))
	require.Equal(t, len("FATAL: linker error\n"), r.Num("stderr_bytes"))
	require.Equal(t, true, r.Structured["truncated"])
	stdout := r.Str("stdout")
	require.Equal(t, "FATAL: linker error\n", r.Str("stderr"))
	require.Contains(t, r.Text, "FATAL: linker error")

	// Head, marker with the totals, tail; nothing is counted twice or lost.
	head, rest, found := strings.Cut(stdout, "[... ")
	require.True(t, found)
	marker, tail, found := strings.Cut(rest, " ...]\n")
	require.True(t, found)
	m := regexp.MustCompile(`^(\d+) of (\d+) bytes left out; .*offset=(\d+)`).FindStringSubmatch(marker)
	require.NotNil(t, m, marker)
	left, total, offset := number(t, m[1]), number(t, m[2]), number(t, m[3])
	require.Equal(t, all.Len(), total)
	require.Equal(t, all.String()[:offset], head[:offset], "the head, which ends before the marker's own line")
	require.LessOrEqual(t, len(head)-offset, 1)
	require.Equal(t, all.String()[total-len(tail):], tail)
	require.Equal(t, total, offset+left+len(tail))

	// The rest can be read by offset.
	got := head[:offset]
	for at := offset; at < total; {
		o := c.OK(t, "read_output", harness.Args{"session_id": id, "command_id": r.Str("command_id"), "offset": at, "max_bytes": 262144})
		require.Equal(t, at, o.Num("offset"))
		require.Equal(t, o.Num("next_offset") == total, o.Structured["eof"])
		got, at = got+o.Str("data"), o.Num("next_offset")
	}
	require.Equal(t, all.String(), got)
}

func b8Line(t *testing.T, s *harness.Server) {
	c := s.Client()
	id := c.StartSession(t, nil)
	r := c.Run(t, id, `head -c 65537 /dev/zero | tr '\0' a`, harness.Args{"max_output_bytes": 65537})
	require.Equal(t, strings.Repeat("a", 65537), r.Str("stdout"))
	require.Equal(t, false, r.Structured["truncated"])
}

func b8Endless(t *testing.T, s *harness.Server) {
	c := s.Client()
	// A guest that kept what it carries would not fit.
	id := c.StartSession(t, harness.Args{"memory_mb": 64, "cpus": 0.5})
	r, took := c.Timed(t, "run_command", harness.Args{"session_id": id, "command": "yes", "timeout_seconds": 3})
	require.Equal(t, "timed_out", r.Str("status"), r.Text)
	require.Less(t, took, 10*time.Second)
	require.Greater(t, r.Num("stdout_bytes"), 1<<20)
	require.Less(t, len(r.Raw), 200_000)
	require.Equal(t, "ok\n", c.Run(t, id, "echo ok").Str("stdout"))
}

// 60 s are only there to let pile up what nobody reads: four times the log's
// cap has to do.
func b8Unread(t *testing.T, s *harness.Server) {
	const logCap = 64 << 20
	c := s.Client()
	id := c.StartSession(t, harness.Args{"memory_mb": 64, "cpus": 0.5})
	before := residentKB(t, s)
	r := c.Run(t, id, "yes", harness.Args{"wait_seconds": 0})
	args := harness.Args{"session_id": id, "command_id": r.Str("command_id"), "offset": logCap - 8}
	said := regexp.MustCompile(`Only the first (\d+) of (\d+) bytes of stdout are kept`)
	require.Eventually(t, func() bool {
		r = c.OK(t, "read_output", args)
		m := said.FindStringSubmatch(r.Text)
		return m != nil && number(t, m[1]) == logCap && number(t, m[2]) > 4*logCap
	}, 60*time.Second, 100*time.Millisecond)
	require.Equal(t, "y\ny\ny\ny\n", r.Str("data"))
	require.Equal(t, "running", r.Str("status"))
	require.Less(t, residentKB(t, s)-before, 200<<10, "other tests use the server too, but not 256 MiB of it")
	usage, _ := c.OK(t, "get_session", harness.Args{"session_id": id}).Structured["usage"].(map[string]any)
	require.Less(t, usage["disk_bytes"], float64(logCap+1<<20))
	require.Equal(t, "ok\n", c.Run(t, id, "echo ok").Str("stdout"), "no call waits behind it")
	require.Equal(t, "stopped", stop(t, c, id, r, "TERM").Str("status"))
}

func b10Lines(t *testing.T, s *harness.Server) {
	c := s.Client()
	r := c.Run(t, c.StartSession(t, nil), `printf 'a\nb\r\nc'; printf 'd\n\ne' >&2`)
	require.Equal(t, "a\nb\r\nc", r.Str("stdout"))
	require.Equal(t, "d\n\ne", r.Str("stderr"))
	require.Equal(t, "utf-8", r.Str("encoding"))
}

// The contract counts timeouts in whole seconds; 4 s are as good as 4.5.
func b12Timeout(t *testing.T, s *harness.Server) {
	c := s.Client()
	r := c.Run(t, c.StartSession(t, nil), "for i in 1 2 3; do echo $i; sleep 1; done; sleep 60", harness.Args{"timeout_seconds": 4})
	require.Equal(t, "timed_out", r.Str("status"))
	require.Equal(t, "1\n2\n3\n", r.Str("stdout"))
}

func b13Memory(t *testing.T, s *harness.Server) { memoryLimit(t, s, "", "tail /dev/zero") }

// The shell survives and reports its child's end as exit code 137.
func b13Shell(t *testing.T, s *harness.Server) {
	r := memoryLimit(t, s, defaultImage, "tail /dev/zero; echo after $?")
	require.Equal(t, "after 137\n", r.Str("stdout"))
}

func memoryLimit(t *testing.T, s *harness.Server, image, command string) harness.Result {
	t.Helper()
	c := s.Client()
	args := harness.Args{"memory_mb": 64}
	if image != "" {
		args["image"] = image
	}
	id := c.StartSession(t, args)
	r := c.Run(t, id, command)
	require.Equal(t, "exited", r.Str("status"), r.Text)
	if r.Num("exit_code") == -1 {
		require.Equal(t, "KILL", r.Str("signal"), r.Text)
	}
	require.Equal(t, true, r.Structured["oom_killed"], r.Text)
	require.Contains(t, r.Text, "64 MiB")
	r2 := c.Run(t, id, "echo ok")
	require.Equal(t, "ok\n", r2.Str("stdout"), "the session lives")
	require.Nil(t, r2.Structured["oom_killed"])
	return r
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// residentKB is how much memory the server has.
func residentKB(t *testing.T, s *harness.Server) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	require.NoError(t, err)
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindStringSubmatch(string(status))
	require.NotNil(t, m)
	return number(t, m[1])
}
