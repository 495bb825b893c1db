package main

import "time"

const (
	// fileBytes is a small source file.
	fileBytes = 4096
	// parallel sessions are what a busy installation on one machine has, and
	// enough to keep a few cores busy.
	parallel = 8
	// agingSample of calls are compared, of a new session and of an old one.
	agingSample = 50
	// warmups of each kind are not counted: they open connections and fill caches.
	warmups = 2
)

// size says how much is measured. Budgets end a phase on a slow machine before
// its samples are complete; the report says how many there were.
type size struct {
	rounds     int // of the fast kinds: 100 give a p95 that five samples are above
	slowEvery  int // a slow kind takes its turn every so many rounds
	turnBudget time.Duration

	windows int           // of each side, by turns
	window  time.Duration // long against one call, short against a machine's moods

	calls       int           // that make a session old
	agingBudget time.Duration // 0 is without a bound
}

var (
	full = size{
		rounds: 100, slowEvery: 4, turnBudget: 75 * time.Second,
		windows: 4, window: 2 * time.Second,
		calls: 5000, agingBudget: 150 * time.Second,
	}
	quick = size{
		rounds: 24, slowEvery: 4, turnBudget: 9 * time.Second,
		windows: 2, window: time.Second,
		calls: 100, agingBudget: 4 * time.Second,
	}
)
