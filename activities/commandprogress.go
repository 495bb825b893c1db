package activities

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	// followEvery is how often the output of a command is looked at for its
	// caller's progress, and followTail how much of its end.
	followEvery = 2 * time.Second
	followTail  = 1024
	// followLine bounds the line that is told, in bytes.
	followLine = 200
)

// commandProgress looks at a command's output while a call waits for its end.
// Its details are the heartbeat.
type commandProgress struct {
	callID string
	said   atomic.Pointer[session.CommandProgress]
}

func (p *commandProgress) details() any {
	if said := p.said.Load(); said != nil {
		return *said
	}
	return session.CommandProgress{CallID: p.callID}
}

// follow looks until ctx ends. It is for show: what fails is tried again.
func (p *commandProgress) follow(ctx context.Context, g guest.API) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	var ends [2]int64
	line := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for i, name := range []guest.StreamName{guest.Stdout, guest.Stderr} {
			limited, cancel := context.WithTimeout(ctx, followEvery)
			c, err := g.Output(limited, guest.OutputRequest{CallID: p.callID, Stream: name, Offset: -followTail, MaxBytes: followTail})
			cancel()
			if err != nil {
				continue
			}
			end := c.Offset + int64(len(c.Data))
			if last := lastLine(c.Data); end > ends[i] && last != "" {
				line = last
			}
			ends[i] = end
		}
		p.said.Store(&session.CommandProgress{CallID: p.callID, LastLine: line, Bytes: ends[0] + ends[1]})
	}
}

// lastLine gives the last line that is not blank, without control characters and
// the sequences that colour a terminal. A carriage return begins a line too.
func lastLine(b []byte) string {
	for len(b) > 0 {
		var last []byte
		if i := bytes.LastIndexAny(b, "\r\n"); i >= 0 {
			b, last = b[:i], b[i+1:]
		} else {
			b, last = nil, b
		}
		if line := plain(lossy(last)); line != "" {
			return line
		}
	}
	return ""
}

// plain leaves what a person reads of a line.
func plain(line string) string {
	var out strings.Builder
	escape := false
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = !unicode.IsLetter(r) // CSI sequences end with a letter
		case unicode.IsControl(r):
			out.WriteByte(' ')
		default:
			out.WriteRune(r)
		}
	}
	line = strings.TrimSpace(out.String())
	if len(line) > followLine {
		line = strings.ToValidUTF8(line[:followLine], "") + " ..."
	}
	return line
}
