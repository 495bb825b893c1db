package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// progressEvery is how often a line of progress is drawn at most.
const progressEvery = 100 * time.Millisecond

// progress is one line on a terminal that tells how far long work is. Where
// stderr is no terminal it tells nothing. Safe for concurrent use.
type progress struct {
	w     io.Writer // nil: tells nothing
	width func() int

	mu    sync.Mutex
	drawn time.Time
	shown bool
}

// newProgress draws on w if that is a terminal.
func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return &progress{}
	}
	return &progress{w: w, width: func() int {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 1 {
			return n
		}
		return 80
	}}
}

// on tells whether anybody sees it.
func (p *progress) on() bool { return p.w != nil }

// show draws the line anew, unless it was drawn a moment ago.
func (p *progress) show(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil || time.Since(p.drawn) < progressEvery {
		return
	}
	p.drawn, p.shown = time.Now(), true
	line := []rune(strings.Map(printable, fmt.Sprintf(format, args...)))
	line = line[:min(len(line), p.width()-1)]
	_, _ = fmt.Fprint(p.w, "\r\x1b[K"+string(line))
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}

// clear takes the line away.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.shown, p.drawn = false, time.Time{}
}

// doneOf writes an amount, with the whole and a percentage where it is known.
func doneOf(done, total int64) string {
	if total <= 0 {
		return sizeText(done)
	}
	return fmt.Sprintf("%s of %s, %d%%", sizeText(done), sizeText(total), min(100, 100*done/total))
}
