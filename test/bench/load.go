package main

import (
	"context"
	"sync/atomic"
	"time"
)

// throughput has eight callers call as fast as they can, sessions and raw execs
// by turns.
func throughput(ctx context.Context, l *lab, s size, r *Report) error {
	ids := r.idle
	counts := [2]int64{}
	var spent [2]time.Duration
	for range s.windows {
		for side, once := range []func(i int) error{
			func(i int) error { return l.runTrue(ctx, ids[i]) },
			func(int) error { _, err := l.rawExec(ctx); return err },
		} {
			began := time.Now()
			n, err := callAll(began.Add(s.window), once)
			if err != nil {
				return err
			}
			counts[side] += n
			spent[side] += time.Since(began) // the last calls end after the window
		}
	}
	perSec, rawPerSec := float64(counts[0])/spent[0].Seconds(), float64(counts[1])/spent[1].Seconds()
	r.Throughput = Throughput{
		Parallel: parallel, CallsPerSec: perSec, RawPerSec: rawPerSec,
		Calls: int(counts[0]), RawExecs: int(counts[1]), Ratio: ratio(perSec, rawPerSec),
	}
	r.idle = nil
	return l.endMany(ctx, ids)
}

func callAll(until time.Time, once func(i int) error) (int64, error) {
	var n atomic.Int64
	err := together(parallel, func(i int) error {
		for time.Now().Before(until) {
			if err := once(i); err != nil {
				return err
			}
			n.Add(1)
		}
		return nil
	})
	return n.Load(), err
}

// aging makes a session old and then compares it with a new one, by turns.
func aging(ctx context.Context, l *lab, s size, r *Report) error {
	old, err := l.start(ctx)
	if err != nil {
		return err
	}
	began, worst, calls := time.Now(), time.Duration(0), 0
	for ; calls < s.calls && (s.agingBudget == 0 || time.Since(began) < s.agingBudget); calls++ {
		t := time.Now()
		if err := l.runTrue(ctx, old); err != nil {
			return err
		}
		worst = max(worst, time.Since(t))
	}
	fresh, err := l.start(ctx)
	if err != nil {
		return err
	}
	var taken [2][]time.Duration
	for range agingSample {
		for side, id := range []string{fresh, old} {
			t := time.Now()
			if err := l.runTrue(ctx, id); err != nil {
				return err
			}
			taken[side] = append(taken[side], time.Since(t))
		}
	}
	c := compare("", stat(taken[1]), "", stat(taken[0]))
	r.Aging = Aging{CallsBefore: calls, SlowestMS: ms(worst), Old: c.Stat, New: c.Raw, Ratio: c.Ratio}
	return l.endMany(ctx, []string{old, fresh})
}
