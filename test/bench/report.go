package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is all that was measured. Sizes and times carry their unit in the name.
type Report struct {
	Started     time.Time    `json:"started"`
	TookSeconds float64      `json:"took_seconds"`
	Version     string       `json:"version"` // of the server
	Machine     Machine      `json:"machine"`
	Latencies   []Comparison `json:"latencies"`
	Throughput  Throughput   `json:"throughput"`
	Aging       Aging        `json:"aging"`
	Memory      Memory       `json:"memory"`

	idle []string // sessions that memory started and throughput uses
}

// Machine is where it was measured.
type Machine struct {
	OS         string `json:"os"`
	Cores      int    `json:"cores"`
	Engine     string `json:"engine"`
	Image      string `json:"image"`
	LoadBefore string `json:"load_before"` // averages of 1, 5 and 15 minutes, "" where unknown
	LoadAfter  string `json:"load_after"`
}

// Stat sums samples up.
type Stat struct {
	N     int     `json:"n"`
	P50MS float64 `json:"p50_ms"`
	P95MS float64 `json:"p95_ms"`
}

// Comparison is a kind beside its raw counterpart, measured by turns.
type Comparison struct {
	Name string `json:"name"`
	Stat
	RawName string  `json:"raw_name"`
	Raw     Stat    `json:"raw"`
	Ratio   float64 `json:"ratio"` // of the p50s; 0 without samples
}

// Throughput is of `run_command true`, a caller per session.
type Throughput struct {
	Parallel    int     `json:"parallel"`
	CallsPerSec float64 `json:"calls_per_second"`
	RawPerSec   float64 `json:"raw_execs_per_second"`
	Calls       int     `json:"calls"`
	RawExecs    int     `json:"raw_execs"`
	Ratio       float64 `json:"ratio"`
}

// Aging compares `run_command true` in a session that had many calls with the
// first calls of a new one.
type Aging struct {
	CallsBefore int     `json:"calls_before"`
	SlowestMS   float64 `json:"slowest_ms"` // of those
	Old         Stat    `json:"old"`
	New         Stat    `json:"new"`
	Ratio       float64 `json:"ratio"`
}

// Memory is of sessions that ran one command and wait for the next.
type Memory struct {
	Sessions           int     `json:"sessions"`
	ServerMB           float64 `json:"server_mb"`             // with all of them
	ServerMBPerSession float64 `json:"server_mb_per_session"` // its growth, divided
	SandboxMB          float64 `json:"sandbox_mb"`            // median of the containers
	RawContainerMB     float64 `json:"raw_container_mb"`      // that runs sleep
}

// stat gives nearest-rank percentiles.
func stat(taken []time.Duration) Stat {
	return Stat{N: len(taken), P50MS: ms(percentile(taken, 50)), P95MS: ms(percentile(taken, 95))}
}

// percentile is the smallest sample that p percent of all do not exceed.
func percentile(taken []time.Duration, p int) time.Duration {
	if len(taken) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(taken))
	rank := int(math.Ceil(float64(p) / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

func compare(name string, s Stat, rawName string, raw Stat) Comparison {
	return Comparison{Name: name, Stat: s, RawName: rawName, Raw: raw, Ratio: ratio(s.P50MS, raw.P50MS)}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// table prints the report for a human.
func (r *Report) table(out io.Writer) error {
	m := r.Machine
	_, _ = fmt.Fprintf(out, "mcp-sandbox %s, %s, %d cores, Docker Engine %s, image %s\nload before %s, after %s; took %.0f s\n\n",
		r.Version, m.OS, m.Cores, m.Engine, m.Image, known(m.LoadBefore), known(m.LoadAfter), r.TookSeconds)
	rows := [][]string{{"ms", "n", "p50", "p95", "raw", "n", "p50", "p95", "ratio"}}
	add := func(name string, s Stat, rawName string, raw Stat, x float64) {
		rows = append(rows, slices.Concat([]string{name}, s.cells(), []string{rawName}, raw.cells(), []string{times(x)}))
	}
	for _, c := range r.Latencies {
		add(c.Name, c.Stat, c.RawName, c.Raw, c.Ratio)
	}
	a := r.Aging
	add(fmt.Sprintf("run_command true after %d calls", a.CallsBefore), a.Old, "in a new session", a.New, a.Ratio)
	_, _ = io.WriteString(out, grid(rows))
	t, mem := r.Throughput, r.Memory
	_, err := fmt.Fprintf(out, `
ratio: p50 against p50, measured by turns; under 1 is faster than raw. read_file and write_file have no raw counterpart
of their own: what one would use is an exec. The slowest of the %d calls took %.0f ms.

%d sessions in parallel: %.0f run_command true per second; raw docker exec true in parallel: %.0f (%s)
idle session: %.1f MB in the server (by the growth of its resident memory, good to about 1 MB; %.0f MB with %d sessions),
%.1f MB in its container (a raw one that sleeps: %.1f MB)
`, a.CallsBefore, a.SlowestMS, t.Parallel, t.CallsPerSec, t.RawPerSec, times(t.Ratio),
		mem.ServerMBPerSession, mem.ServerMB, mem.Sessions, mem.SandboxMB, mem.RawContainerMB)
	return err
}

// grid aligns columns: words to the left, figures to the right. The first row
// are the names; a column holds words where its second row does.
func grid(rows [][]string) string {
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for c, cell := range row {
			width := 0
			for _, r := range rows {
				width = max(width, len(r[c]))
			}
			if figure := rows[1][c][0] == '-' || rows[1][c][0] >= '0' && rows[1][c][0] <= '9'; figure {
				fmt.Fprintf(&line, "%*s  ", width, cell)
			} else {
				fmt.Fprintf(&line, "%-*s  ", width, cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

func (s Stat) cells() []string {
	return []string{strconv.Itoa(s.N), fmt.Sprintf("%.1f", s.P50MS), fmt.Sprintf("%.1f", s.P95MS)}
}

func times(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f x", ratio)
}

func known(load string) string {
	if load == "" {
		return "unknown"
	}
	return load
}

func machine(engine, image string) Machine {
	return Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Engine: engine, Image: image}
}

// load gives the load averages where the system has /proc.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) >= 3 {
		return strings.Join(fields[:3], " ")
	}
	return ""
}
