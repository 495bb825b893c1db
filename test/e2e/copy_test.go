package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// The bounds of a copy of 2,000 files and 100 MB. The server's own memory with
// the embedded Temporal is some 150 to 200 MiB; a copy may add little to it.
const (
	copyWithin     = 15 * time.Second
	copyEngine     = 8 // times the engine's own copy, on a machine too slow for that
	copyCLIMemory  = 160 << 20
	copyServerMore = 96 << 20
)

// bigTree makes 2,000 files of 100 MB, of many sizes.
func bigTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "big")
	random := rand.NewChaCha8([32]byte{1})
	total := 0
	for i := range 2000 {
		sub := filepath.Join(dir, fmt.Sprintf("d%02d", i%40), fmt.Sprintf("e%d", i%7))
		require.NoError(t, os.MkdirAll(sub, 0o755))
		size := i * 46
		if i == 1000 {
			size = 100_000_000 - 1999*2000/2*46 + 1000*46
		}
		b := make([]byte, size)
		_, _ = random.Read(b)
		total += size
		require.NoError(t, os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%04d", i)), b, fs.FileMode(0o600+i%2*0o155)))
	}
	require.Equal(t, 100_000_000, total)
	return dir
}

// hashes is what sha256sum and stat say of the files below a folder.
func hashes(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		rel, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			lines = append(lines, fmt.Sprintf("%s %o %d", rel, info.Mode().Perm(), info.ModTime().Unix()))
			return nil
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		sum := sha256.Sum256(b)
		lines = append(lines, fmt.Sprintf("%s %o %d %s", rel, info.Mode().Perm(), info.ModTime().Unix(), hex.EncodeToString(sum[:])))
		return nil
	}))
	return strings.Join(lines, "\n")
}

// copied is what cp --json prints.
type copied struct {
	Path      string `json:"path"`
	CallID    string `json:"call_id"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
	Unchanged int    `json:"unchanged"`
	Skipped   int    `json:"skipped"`
	Notes     []struct{ Path, Kind, Reason string }
}

// cp runs cp --json and tells the memory that it took at most.
func cp(t *testing.T, s *harness.Server, args ...string) (c copied, peak int64) {
	t.Helper()
	cmd := exec.Command(harness.Binary(t), append([]string{"cp", "--json", "--data-dir", s.DataDir}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s", errs.String())
	require.NoError(t, json.Unmarshal(out, &c))
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(t, ok)
	return c, usage.Maxrss << 10
}

// highWater is the most memory that the server's process has had, in bytes.
func highWater(t *testing.T, s *harness.Server) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if os.IsNotExist(err) {
		t.Skip("reads /proc, which only Linux has")
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// A folder of 2,000 files and 100 MB goes in and out unchanged, soon, with
// bounded memory in every process, also in the smallest sandbox.
func TestCopyBigTree(t *testing.T) {
	s := harness.Start(t)
	src := bigTree(t)
	want := hashes(t, src)
	id := s.Client().StartSession(t, harness.Args{"memory_mb": 64})
	before := highWater(t, s)
	began := time.Now()
	in, inPeak := cp(t, s, src, id+":")
	inTook := time.Since(began)
	require.Equal(t, "/home/sandbox/big", in.Path)
	require.Equal(t, 2000, in.Files)
	require.EqualValues(t, 100_000_000, in.Bytes)
	r := s.Client().Run(t, id, "cd big && find . -type f | wc -l; stat -c '%U %a' d01/e1/f0001; cat /proc/1/status")
	require.True(t, strings.HasPrefix(r.Str("stdout"), "2000\n"), r.Text)
	var guestPeak string
	for line := range strings.Lines(r.Str("stdout")) {
		if strings.HasPrefix(line, "VmHWM:") {
			guestPeak = strings.Join(strings.Fields(line), " ")
		}
	}
	kib, err := strconv.Atoi(strings.Fields(guestPeak)[1])
	require.NoError(t, err)

	dest := filepath.Join(t.TempDir(), "out")
	began = time.Now()
	out, outPeak := cp(t, s, id+":big", dest)
	outTook := time.Since(began)
	require.Equal(t, in.Bytes, out.Bytes)
	require.Equal(t, want, hashes(t, dest))
	more := highWater(t, s) - before
	engine := s.EngineCopy(t, id, src)
	t.Logf("in %.1f s, out %.1f s, the engine's own copy in %.1f s; peak: cp %d and %d MiB, guest %s, server %d MiB more than before",
		inTook.Seconds(), outTook.Seconds(), engine.Seconds(), inPeak>>20, outPeak>>20, guestPeak, more>>20)
	within := max(copyWithin, copyEngine*engine)
	require.Less(t, inTook, within)
	require.Less(t, outTook, within)
	require.Less(t, max(inPeak, outPeak), int64(copyCLIMemory))
	require.Less(t, more, int64(copyServerMore))
	require.Less(t, kib, 48<<10)

	// Again: nothing is written that is there.
	out, _ = cp(t, s, id+":big/.", dest)
	require.Equal(t, 2000, out.Unchanged)
	require.Equal(t, want, hashes(t, dest))
	require.NotContains(t, s.Log(), "level=ERROR")
}

// The server dies in the middle of a copy. cp goes on with the next one, on
// another port; what arrived before is not sent again.
func TestCopyOutlivesTheServer(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--temporal-listen", "127.0.0.1:0")
	id := s.Client().StartSession(t, nil)
	src := bigTree(t)
	type outcome struct {
		out []byte
		err error
	}
	done := make(chan outcome, 1)
	cmd := exec.Command(harness.Binary(t), "cp", "--json", "--data-dir", s.DataDir, src, id+":")
	go func() {
		out, err := cmd.Output()
		done <- outcome{out, err}
	}()
	// Once something is in the sandbox's staging, and the copy is not done yet.
	require.Eventually(t, func() bool {
		n := strings.TrimSpace(s.AsRoot(t, id, "ls /.sandbox/state/staging | wc -l"))
		many, err := strconv.Atoi(n)
		return err == nil && many > 20
	}, 30*time.Second, time.Millisecond)
	s.Kill()
	s.Launch()
	o := <-done
	var exit *exec.ExitError
	if o.err != nil {
		require.ErrorAs(t, o.err, &exit)
		t.Fatalf("%s", exit.Stderr)
	}
	dest := filepath.Join(t.TempDir(), "out")
	cp(t, s, id+":big", dest)
	require.Equal(t, hashes(t, src), hashes(t, dest))
	require.Equal(t, "0", strings.TrimSpace(s.AsRoot(t, id, "ls /.sandbox/state/staging | wc -l")))
}

func TestCopyCases(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	c := s.Client()
	id := c.StartSession(t, nil)
	base := t.TempDir()
	path := func(name string) string { return filepath.Join(base, name) }
	put := func(name, content string, mode fs.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path(name)), 0o755))
		require.NoError(t, os.WriteFile(path(name), []byte(content), mode))
	}
	shell := func(t *testing.T, command string) string {
		r := c.Run(t, id, command)
		require.Equal(t, 0, r.Num("exit_code"), r.Text)
		return r.Str("stdout")
	}
	t.Run("a file in and out", func(t *testing.T) {
		put("f", "content", 0o750)
		got, _ := cp(t, s, path("f"), id+":new/deep/")
		require.Equal(t, "/home/sandbox/new/deep/f", got.Path)
		require.Equal(t, "content 750 1000:1000\n", shell(t, "cat new/deep/f; stat -c ' %a %u:%g' new/deep/f"))
		cp(t, s, path("f"), id+":/tmp/other")
		require.Equal(t, "content", shell(t, "cat /tmp/other"))
		cp(t, s, id+":/tmp/other", path("back"))
		b, err := os.ReadFile(path("back"))
		require.NoError(t, err)
		require.Equal(t, "content", string(b))
		got, _ = cp(t, s, id+":new/deep/f", base)
		require.Equal(t, 1, got.Unchanged)
		r := cli(t, s, "cp", path("f"), id+":").ok(t)
		require.Regexp(t, `^Copied 1 file \(7 B\) to `+id+`:/home/sandbox/f in \d+\.\d s\n$`, r.stdout)
		require.Empty(t, r.stderr)
	})
	t.Run("hostile links", func(t *testing.T) {
		put("outside", "untouched", 0o600)
		shell(t, "mkdir -p evil/d; cd evil; ln -s "+path("outside")+" abs; ln -s ../../outside up; ln -s /etc d/etc; printf x > d/f; ln -s d in; mkfifo pipe")
		r := cli(t, s, "cp", id+":evil", path("evil")).ok(t)
		require.Contains(t, r.stderr, `skipped: abs: a link that leads out of the copied tree, to "`+path("outside")+`"`)
		require.Contains(t, r.stderr, "skipped: pipe: a FIFO")
		require.Contains(t, r.stdout, "4 skipped")
		entries, err := os.ReadDir(path("evil"))
		require.NoError(t, err)
		require.Len(t, entries, 2)
		// A folder that was a folder comes back as a link, and the other way round.
		shell(t, "rm -r evil/d evil/in; ln -s /tmp evil/d; mkdir evil/in; printf new > evil/in/f")
		r = cli(t, s, "cp", id+":evil", base)
		require.Equal(t, 1, r.code)
		require.Contains(t, r.stderr, "not a directory")
		b, err := os.ReadFile(path("evil/d/f"))
		require.NoError(t, err)
		require.Equal(t, "x", string(b))
		b, err = os.ReadFile(path("outside"))
		require.NoError(t, err)
		require.Equal(t, "untouched", string(b))
		require.Contains(t, cli(t, s, "cp", id+":evil/abs", path("l")).stderr, "name that instead")
		// In the sandbox links are followed by nobody either.
		shell(t, "mkdir trap; ln -s /etc trap/d")
		put("src/d/passwd", "owned", 0o644)
		r = cli(t, s, "cp", path("src")+"/.", id+":trap")
		require.Equal(t, 1, r.code)
		require.Contains(t, r.stderr, "trap/d")
	})
	t.Run("errors", func(t *testing.T) {
		for _, row := range []struct {
			args []string
			want string
		}{
			{[]string{path("none"), id + ":"}, "no such file"},
			{[]string{id + ":none", base}, "does not exist"},
			{[]string{id + ":/root/x", base}, "/root"},
			{[]string{path("f"), "s_aaaaaaaaaaaaaaaaaaaaaaaaaa:"}, "mcp-sandbox sessions list"},
			{[]string{path("f"), id + ":/etc/x"}, "the sandbox user may not"},
			{[]string{id + ":new/deep/f", path("f/x")}, "not a directory"},
		} {
			r := cli(t, s, append([]string{"cp"}, row.args...)...)
			require.Equal(t, 1, r.code, "%v: %s", row.args, r.stdout)
			require.Contains(t, r.stderr, row.want)
			require.Empty(t, r.stdout)
		}
		left, err := filepath.Glob(path(".mcp-sandbox-*"))
		require.NoError(t, err)
		require.Empty(t, left)
	})
	t.Run("blobs", func(t *testing.T) {
		blobs, err := os.ReadDir(filepath.Join(s.DataDir, "blobs"))
		require.NoError(t, err)
		require.NotEmpty(t, blobs)
		for _, b := range blobs {
			require.Len(t, b.Name(), 64, "nothing half written")
		}
	})
	t.Run("ended", func(t *testing.T) {
		c.OK(t, "end_session", harness.Args{"session_id": id})
		r := cli(t, s, "cp", path("f"), id+":")
		require.Equal(t, 1, r.code)
		require.Contains(t, r.stderr, "has ended; mcp-sandbox sessions list shows")
	})
}
