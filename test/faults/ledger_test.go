package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func TestLedger(t *testing.T) {
	for _, c := range []struct {
		name          string
		do            func(*ledger)
		found         string
		doubles, lost int
	}{
		{"acknowledged and there", func(l *ledger) { call(l, "a", "") }, "a\n", 0, 0},
		{"acknowledged and gone", func(l *ledger) { call(l, "a", "") }, "", 0, 1},
		{"twice", func(l *ledger) { call(l, "a", "") }, "a\na\n", 1, 0},
		{"in flight, once", func(l *ledger) { l.begin("a") }, "a\n", 0, 0},
		{"in flight, not", func(l *ledger) { l.begin("a") }, "", 0, 0},
		{"in flight, twice", func(l *ledger) { l.begin("a") }, "a a", 1, 0},
		{"lost, once", func(l *ledger) { call(l, "a", session.Lost) }, "a", 0, 0},
		{"refused, and not there", func(l *ledger) { call(l, "a", session.Unavailable) }, "", 0, 0},
		{"refused, and there", func(l *ledger) { call(l, "a", session.Unavailable) }, "a", 1, 0},
		{"another session's", func(*ledger) {}, "b", 1, 0},
		{"before a snapshot, kept by the restore", aRestore, "a", 0, 0},
		{"before a snapshot, lost by the restore", aRestore, "", 0, 1},
		{"after a snapshot, and taken back", aRestore, "a", 0, 0},
		{"after a snapshot, and again after the restore", aRestore, "a later", 1, 0},
		{"in flight while the snapshot was taken", func(l *ledger) {
			epoch := l.begin("a")
			lines, at := l.copied()
			l.settle("a", epoch, present)
			l.restored(l.kept(lines, at), l.now())
		}, "", 0, 0},
		{"container removed", func(l *ledger) {
			call(l, "a", "")
			l.shake()
			call(l, "b", "")
		}, "b", 0, 0},
		{"container removed, effect twice", func(l *ledger) {
			call(l, "a", "")
			l.shake()
		}, "a a", 1, 0},
		{"container removed while the call was in flight", func(l *ledger) {
			epoch := l.begin("a")
			l.shake()
			l.settle("a", epoch, present)
		}, "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger(nil)
			c.do(l)
			doubles, lost := l.compare(c.found)
			require.Len(t, doubles, c.doubles, "%v", doubles)
			require.Len(t, lost, c.lost, "%v", lost)
		})
	}
}

func call(l *ledger, id string, code session.Code) { l.settle(id, l.begin(id), effect(code)) }

// aRestore has a call before a snapshot and one after it, and a restore.
func aRestore(l *ledger) {
	call(l, "a", "")
	lines, at := l.copied()
	lines = l.kept(lines, at)
	call(l, "later", "")
	l.restored(lines, l.now())
}
