package harness

import (
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Footprint is what a server's process holds of the machine.
type Footprint struct {
	Descriptors, Threads, RSSKiB, Children int
	Goroutines                             int // as /metrics shows them; 0 when it does not
	TempFiles                              int // below its TMPDIR
}

// Footprint measures it, as Linux shows it.
func (s *Server) Footprint(t *testing.T, tempDir string) Footprint {
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(s.PID()))
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if os.IsNotExist(err) {
		t.Skip("reads /proc, which only Linux has")
	}
	require.NoError(t, err)
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	require.NoError(t, err)
	field := func(name string) int {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, name+":"); ok {
				n, err := strconv.Atoi(strings.Fields(rest)[0])
				require.NoError(t, err)
				return n
			}
		}
		t.Fatalf("no %s in %s", name, status)
		return 0
	}
	f := Footprint{Descriptors: len(fds), Threads: field("Threads"), RSSKiB: field("VmRSS")}
	tasks, err := filepath.Glob(filepath.Join(proc, "task/*/children"))
	require.NoError(t, err)
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		if err == nil {
			f.Children += len(strings.Fields(string(children)))
		}
	}
	require.NoError(t, filepath.WalkDir(tempDir, func(path string, _ fs.DirEntry, err error) error {
		if path != tempDir {
			f.TempFiles++
		}
		return err
	}))
	f.Goroutines = s.goroutines(t)
	return f
}

func (s *Server) goroutines(t *testing.T) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(s.URL, "/mcp")+"/metrics", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.Token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, "go_goroutines "); ok && resp.StatusCode == http.StatusOK {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			require.NoError(t, err)
			return int(n)
		}
	}
	return 0
}
