package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// presence is how often the line of a call must be in the sandbox's files.
type presence int

const (
	absent  presence = iota // not once: refused, or taken back by a restore
	unknown                 // at most once: in flight, or lost
	present                 // exactly once: acknowledged
)

// ledger is what a session's files must hold: a line for each call that takes
// effect, with its call ID.
type ledger struct {
	mu    sync.Mutex
	lines map[string]presence
	// epoch counts the removals of the container behind the session's back. What
	// such a session still has is not known: a snapshot is restored, if any, and
	// nobody sees when.
	epoch int
}

func newLedger(lines map[string]presence) *ledger {
	if lines == nil {
		lines = map[string]presence{}
	}
	return &ledger{lines: lines}
}

// begin is for a call that is about to be sent. settle wants the epoch back.
func (l *ledger) begin(callID string) (epoch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[callID] = unknown
	return l.epoch
}

// settle is for a definite answer.
func (l *ledger) settle(callID string, epoch int, p presence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch == l.epoch || p == absent {
		l.lines[callID] = p
	}
}

// copied is what a snapshot holds that is taken now, while no call is in flight
// but those that have begun.
func (l *ledger) copied() (lines map[string]presence, epoch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.lines), l.epoch
}

// kept is what a snapshot holds that was acknowledged, by what copied gave before.
func (l *ledger) kept(lines map[string]presence, epoch int) map[string]presence {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch != l.epoch {
		blur(lines)
	}
	return lines
}

// restored sets the files back. Lines that are not in the snapshot are gone for
// good: an effect that shows up later happened again.
func (l *ledger) restored(snapshot map[string]presence, epoch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.lines {
		l.lines[id] = snapshot[id]
	}
	if epoch != l.epoch {
		blur(l.lines)
	}
}

// shake is for a container that is removed, and for a restore of which it is not
// known whether it happened.
func (l *ledger) shake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	blur(l.lines)
}

func blur(lines map[string]presence) {
	for id, p := range lines {
		if p == present {
			lines[id] = unknown
		}
	}
}

// now is the epoch.
func (l *ledger) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// shaken tells whether the container was ever removed.
func (l *ledger) shaken() bool { return l.now() > 0 }

// compare holds the ledger against the lines that are there, and says what is
// wrong with them.
func (l *ledger) compare(found string) (doubles, lost []string) {
	count := map[string]int{}
	for id := range strings.FieldsSeq(found) {
		count[id]++
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(count)) {
		switch want, known := l.lines[id]; {
		case !known:
			doubles = append(doubles, id+" is no call of this session")
		case count[id] > 1:
			doubles = append(doubles, fmt.Sprintf("%s took effect %d times", id, count[id]))
		case want == absent:
			doubles = append(doubles, id+" took effect though it was refused, or again after a restore")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.lines)) {
		if l.lines[id] == present && count[id] == 0 {
			lost = append(lost, "the effect of "+id+" was acknowledged and is gone")
		}
	}
	return doubles, lost
}

// effect is how often a call has taken effect that was answered with this code.
func effect(code session.Code) presence {
	switch code {
	case "":
		return present
	case session.Lost, session.Internal, session.Cancelled:
		return unknown
	default: // nothing happened
		return absent
	}
}
