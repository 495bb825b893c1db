package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Report is what all rounds came to. Times carry their unit in the name.
type Report struct {
	Seed     uint64         `json:"seed"`
	Rounds   int            `json:"rounds"`
	Sessions int            `json:"sessions"` // that were started
	Calls    int            `json:"calls"`    // with a definite answer
	Resent   int            `json:"resent"`   // attempts without one
	Kills    map[string]int `json:"kills"`    // by kind
	Missed   map[string]int `json:"missed,omitempty"`

	DoubleEffects int `json:"double_effects"`
	LostResults   int `json:"lost_results"`
	Orphans       int `json:"orphans"`
	StuckSessions int `json:"stuck_sessions"`

	// LostOutcomes are calls that were honestly answered with Lost, and commands
	// with status lost. They are no fault.
	LostOutcomes int            `json:"lost_outcomes"`
	Codes        map[string]int `json:"codes"` // of errors, "code tool"
	Recovery     []Recovery     `json:"recovery"`
	Findings     []string       `json:"findings,omitempty"` // behind the four counters
	Strange      []string       `json:"strange,omitempty"`  // errors that nobody should meet
	Errors       []string       `json:"errors,omitempty"`   // of rounds that could not be finished
	TookSeconds  float64        `json:"took_seconds"`

	opts  options
	began time.Time
	mu    sync.Mutex
	times map[string][]time.Duration
}

// Recovery is the time from the restart of a process, or from another fault's
// end, to the next call that succeeds.
type Recovery struct {
	Kind  string  `json:"kind"`
	N     int     `json:"n"`
	P50MS float64 `json:"p50_ms"`
	P99MS float64 `json:"p99_ms"`
}

func newReport(o options) *Report {
	return &Report{
		Seed: o.seed, Kills: map[string]int{}, Missed: map[string]int{}, Codes: map[string]int{},
		opts: o, began: time.Now(), times: map[string][]time.Duration{},
	}
}

func (r *Report) failed() bool {
	return r.DoubleEffects+r.LostResults+r.Orphans+r.StuckSessions+len(r.Errors) > 0
}

func (r *Report) struck(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Kills[kind]++
}

// miss counts a fault for which there was nothing to break.
func (r *Report) miss(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Missed[kind]++
}

func (r *Report) recovered(kind string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times[kind] = append(r.times[kind], took)
}

// add takes a round in.
func (r *Report) add(f *findings, t *tally, b *book) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Rounds++
	r.Sessions += len(b.live) + len(b.ended)
	r.Calls += t.calls
	r.Resent += t.resent
	r.LostOutcomes += t.lost
	for code, n := range t.codes {
		r.Codes[code] += n
	}
	r.Strange = append(r.Strange, t.strange...)
	r.DoubleEffects += f.doubles
	r.LostResults += f.losts
	r.Orphans += f.orphans
	r.StuckSessions += f.stucks
	r.Findings = append(r.Findings, f.texts...)
	r.Recovery = nil
	for _, kind := range slices.Sorted(maps.Keys(r.times)) {
		taken := r.times[kind]
		r.Recovery = append(r.Recovery, Recovery{kind, len(taken), ms(percentile(taken, 50)), ms(percentile(taken, 99))})
	}
	r.TookSeconds = time.Since(r.began).Seconds()
}

// percentile is the smallest sample that p percent of all do not exceed.
func percentile(taken []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(taken))
	rank := int(math.Ceil(float64(p) / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// table prints the report for a human.
func (r *Report) table(out io.Writer) error {
	var b strings.Builder
	kills := 0
	for _, n := range r.Kills {
		kills += n
	}
	fmt.Fprintf(&b, "%d rounds from seed %d in %.0f s, %d sessions, %d calls, %d attempts without an answer, %d faults\n\n",
		r.Rounds, r.Seed, r.TookSeconds, r.Sessions, r.Calls, r.Resent, kills)
	fmt.Fprintf(&b, "%-18s %5s   %s\n", "fault", "n", "ms to the next success: p50, p99")
	for _, name := range slices.Sorted(maps.Keys(r.Kills)) {
		fmt.Fprintf(&b, "%-18s %5d", name, r.Kills[name])
		if i := slices.IndexFunc(r.Recovery, func(x Recovery) bool { return x.Kind == name }); i >= 0 {
			fmt.Fprintf(&b, "   %6.0f %6.0f", r.Recovery[i].P50MS, r.Recovery[i].P99MS)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, `
double effects                        %5d
lost acknowledged results             %5d
orphans                               %5d
stuck sessions                        %5d
outcomes reported lost                %5d
`, r.DoubleEffects, r.LostResults, r.Orphans, r.StuckSessions, r.LostOutcomes)
	for _, code := range slices.Sorted(maps.Keys(r.Codes)) {
		fmt.Fprintf(&b, "%-37s %5d\n", code, r.Codes[code])
	}
	for _, list := range [][]string{r.Findings, r.Strange, r.Errors} {
		for _, text := range list {
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// findings are what a round found wrong.
type findings struct {
	seed     uint64
	progress func(string, ...any)

	mu                              sync.Mutex
	doubles, losts, orphans, stucks int
	texts                           []string
}

func (f *findings) double(format string, args ...any) {
	f.add(&f.doubles, "double effect", format, args)
}

func (f *findings) lost(format string, args ...any)   { f.add(&f.losts, "lost result", format, args) }
func (f *findings) orphan(format string, args ...any) { f.add(&f.orphans, "orphan", format, args) }
func (f *findings) stuck(format string, args ...any)  { f.add(&f.stucks, "stuck session", format, args) }

func (f *findings) add(counter *int, what, format string, args []any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := fmt.Sprintf("seed %d, %s: ", f.seed, what) + fmt.Sprintf(format, args...)
	if slices.Contains(f.texts, text) {
		return // an audit may see it again
	}
	*counter++
	f.texts = append(f.texts, text)
	f.progress("%s", text)
}
