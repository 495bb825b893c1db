package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// buildLog is where the image recipe writes to. On a terminal its own steps stay
// on the screen, as `image: ...`, and what its tools print is one line of progress
// below them; the last of it is shown when the build fails. Elsewhere everything
// is passed on. Safe for concurrent use.
type buildLog struct {
	w    io.Writer
	line *progress

	mu      sync.Mutex
	began   time.Time // of the step
	step    string
	partial []byte
	tail    []string // of the tools' output
}

const (
	recipeSays = "image: "
	// buildTail is how many lines of the tools' output a failure shows.
	buildTail = 20
	// buildTick is how often the seconds of a silent step are counted on.
	buildTick = time.Second
)

func newBuildLog(w io.Writer) *buildLog {
	return &buildLog{w: w, line: newProgress(w), began: time.Now(), step: "starting"}
}

// Write takes a piece of the output.
func (b *buildLog) Write(p []byte) (int, error) {
	if !b.line.on() {
		return b.w.Write(p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.partial = append(b.partial, p...)
	for {
		// apt and docker redraw their own lines with a carriage return.
		i := bytes.IndexAny(b.partial, "\r\n")
		if i < 0 {
			return len(p), nil
		}
		b.take(strings.TrimSpace(string(b.partial[:i])))
		b.partial = b.partial[i+1:]
	}
}

func (b *buildLog) take(line string) {
	step, ours := strings.CutPrefix(line, recipeSays)
	switch {
	case line == "":
	case ours:
		b.line.clear()
		_, _ = fmt.Fprintln(b.w, line)
		b.began, b.step = time.Now(), step
	default:
		b.tail = append(b.tail, line)
		b.tail = b.tail[max(0, len(b.tail)-buildTail):]
	}
	b.draw()
}

func (b *buildLog) draw() {
	last := ""
	if n := len(b.tail); n > 0 {
		last = ": " + b.tail[n-1]
	}
	b.line.show("%s, %d s%s", b.step, int(time.Since(b.began).Seconds()), last)
}

// tick counts the seconds until done is closed.
func (b *buildLog) tick(done <-chan struct{}) {
	t := time.NewTicker(buildTick)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			b.mu.Lock()
			b.draw()
			b.mu.Unlock()
		}
	}
}

// end takes the line away; after a failure what the tools said last stays.
func (b *buildLog) end(failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.line.clear()
	if failed && b.line.on() {
		for _, line := range b.tail {
			_, _ = fmt.Fprintln(b.w, line)
		}
	}
}
