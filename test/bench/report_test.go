package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := 100; i > 0; i-- {
		hundred = append(hundred, time.Duration(i))
	}
	for name, c := range map[string]struct {
		taken []time.Duration
		p     int
		want  time.Duration
	}{
		"none":             {nil, 50, 0},
		"one":              {hundred[:1], 95, 100},
		"two, the lower":   {[]time.Duration{9, 4}, 50, 4},
		"three, the mid":   {[]time.Duration{9, 1, 4}, 50, 4},
		"hundred, p50":     {hundred, 50, 50},
		"hundred, p95":     {hundred, 95, 95},
		"hundred, highest": {hundred, 100, 100},
		"ten, p95":         {hundred[90:], 95, 10},
	} {
		require.Equal(t, c.want, percentile(c.taken, c.p), name)
	}
	require.Equal(t, time.Duration(100), hundred[0], "samples keep their order")
}

func TestTable(t *testing.T) {
	ten := []time.Duration{10 * time.Millisecond}
	forty := []time.Duration{40 * time.Millisecond}
	r := &Report{
		Version: "v1", TookSeconds: 61,
		Machine: Machine{OS: "linux/amd64", Cores: 2, Engine: "20.10", Image: "img", LoadBefore: "0.1 0.2 0.3"},
		Latencies: []Comparison{
			compare("run_command true", stat(ten), "docker exec true", stat(forty)),
			compare("snapshot", stat(nil), "docker commit", stat(nil)),
		},
		Aging: Aging{CallsBefore: 500, SlowestMS: 99, Old: stat(ten), New: stat(ten), Ratio: 1},
	}
	var b strings.Builder
	require.NoError(t, r.table(&b))
	want := `mcp-sandbox v1, linux/amd64, 2 cores, Docker Engine 20.10, image img
load before 0.1 0.2 0.3, after unknown; took 61 s

ms                                n   p50   p95  raw               n   p50   p95   ratio
run_command true                  1  10.0  10.0  docker exec true  1  40.0  40.0  0.25 x
snapshot                          0   0.0   0.0  docker commit     0   0.0   0.0       -
run_command true after 500 calls  1  10.0  10.0  in a new session  1  10.0  10.0  1.00 x
`
	require.True(t, strings.HasPrefix(b.String(), want), b.String())
	require.Contains(t, b.String(), "The slowest of the 500 calls took 99 ms.")
}

func TestJSON(t *testing.T) {
	var b strings.Builder
	r := &Report{Latencies: []Comparison{compare("a", stat(nil), "b", stat(nil))}}
	require.NoError(t, show(r, options{json: true}, &b))
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(b.String()), &got))
	row := got["latencies"].([]any)[0].(map[string]any)
	for _, key := range []string{"name", "n", "p50_ms", "p95_ms", "raw_name", "raw", "ratio"} {
		require.Contains(t, row, key)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--nonsense"}, {"extra"}, {"--calls", "-1"}} {
		require.Equal(t, 2, run(t.Context(), args, io.Discard, io.Discard), "%v", args)
	}
	o, err := parse([]string{"--quick", "--calls", "5000"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 5000, o.size.calls)
	require.Zero(t, o.size.agingBudget, "calls that were asked for are all made")
}

// What an ended session must not leave; one image is kept for the next.
func TestRemains(t *testing.T) {
	require.Empty(t, remains([]string{"image a"}))
	require.Equal(t, []string{"container c", "image b"}, remains([]string{"container c", "image a", "image b"}))
}
