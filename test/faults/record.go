package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-sandbox/mcp-sandbox/test/harness"
)

// ack is a call that was acknowledged: sent again it must answer the same.
type ack struct {
	callID, tool string
	args         harness.Args
	result       map[string]any
}

// output is of a command that has ended, as read_output gave it.
type output struct {
	commandID, status, data string
	exitCode                int // -1 for none
}

// snapshot is one that was acknowledged.
type snapshot struct {
	id    string
	lines map[string]presence
}

// record is what an agent knows of one session. Only its agent and, later, the
// audit write to it; the nemesis reads id and shakes the ledger.
type record struct {
	id     string
	ledger *ledger
	gone   chan struct{} // closed at its end

	mu        sync.Mutex
	acks      []ack
	outputs   []output
	marks     []string // of processes that must be gone
	snapshots []snapshot
	lostCalls int // answers with code Lost since somebody looked
	calls     int
}

func (r *record) acknowledge(a ack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acks = append(r.acks, a)
}

func (r *record) read(o output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outputs = append(r.outputs, o)
}

func (r *record) mustBeGone(mark string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks = append(r.marks, mark)
}

// nextCallID makes IDs that are unique in the round and the same for a seed.
func (r *record) nextCallID(slot, generation int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	return fmt.Sprintf("a%d-%d-%d", slot, generation, r.calls)
}

// book holds the sessions of a round.
type book struct {
	mu        sync.Mutex
	current   map[int]*record // by slot
	live      map[string]*record
	ended     map[string]bool // sessions whose end was acknowledged
	snapshots []string        // all, to delete
}

func newBook() *book {
	return &book{current: map[int]*record{}, live: map[string]*record{}, ended: map[string]bool{}}
}

func (b *book) open(slot int, r *record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current[slot], b.live[r.id] = r, r
}

// at is the session of a slot, or nil.
func (b *book) at(slot int) *record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current[slot]
}

func (b *book) end(sessionID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.current, func(_ int, r *record) bool { return r.id == sessionID })
	if r := b.live[sessionID]; r != nil {
		close(r.gone)
	}
	delete(b.live, sessionID)
	b.ended[sessionID] = true
}

func (b *book) keep(snapshotID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.snapshots = append(b.snapshots, snapshotID)
}

// sessions gives those that have not ended.
func (b *book) sessions() []*record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.live), func(x, y *record) int { return strings.Compare(x.id, y.id) })
}
