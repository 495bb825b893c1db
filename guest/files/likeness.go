//go:build linux

package files

import (
	"bytes"
	"slices"
)

const (
	// maxLikeness is how many bytes of a line or name are compared.
	maxLikeness = 512
	// minScore is the likeness below which a candidate is not worth showing.
	minScore = 0.5
	// maxCandidates is how many are shown.
	maxCandidates = 3
)

// likeness compares texts with one wanted text by the pairs of bytes they
// share (the Dice coefficient). It takes time linear in what it is given, so
// that a whole file can be searched; an edit distance would not.
type likeness struct {
	wanted []byte
	left   [1 << 16]uint16 // how often each pair is in wanted
}

func newLikeness(wanted string) *likeness {
	l := &likeness{wanted: clip([]byte(wanted))}
	for i := 1; i < len(l.wanted); i++ {
		l.left[pair(l.wanted, i)]++
	}
	return l
}

// score is 1 for the same text, white space around it aside, and 0 for one that
// shares nothing.
func (l *likeness) score(text []byte) float64 {
	text = clip(text)
	if bytes.Equal(text, l.wanted) {
		return 1
	}
	if len(text) < 2 || len(l.wanted) < 2 {
		return 0
	}
	shared := 0
	taken := make([]int, 0, maxLikeness)
	for i := 1; i < len(text); i++ {
		if p := pair(text, i); l.left[p] > 0 {
			l.left[p]--
			taken = append(taken, p)
			shared++
		}
	}
	for _, p := range taken {
		l.left[p]++
	}
	return 2 * float64(shared) / float64(len(text)+len(l.wanted)-2)
}

func pair(b []byte, i int) int { return int(b[i-1])<<8 | int(b[i]) }

func clip(b []byte) []byte {
	b = bytes.TrimSpace(b)
	return b[:min(len(b), maxLikeness)]
}

// candidate is one of several texts with its score.
type candidate struct {
	index int
	score float64
}

// ranking holds the best candidates, the best first; the earlier one wins a
// draw.
type ranking []candidate

func (r *ranking) add(index int, score float64) {
	if score < minScore {
		return
	}
	at, _ := slices.BinarySearchFunc(*r, score, func(c candidate, score float64) int {
		if c.score >= score {
			return -1
		}
		return 1
	})
	if at < maxCandidates {
		*r = slices.Insert(*r, at, candidate{index, score})
		*r = (*r)[:min(len(*r), maxCandidates)]
	}
}
