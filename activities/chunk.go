package activities

import (
	"context"
	"slices"
	"unicode/utf8"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// readText reads a slice of a stream that is to be shown as text. One that
// begins within a character begins with that character's first byte instead;
// the chunk's offset says so.
func readText(ctx context.Context, g guest.API, req guest.OutputRequest) (guest.OutputChunk, error) {
	c, err := g.Output(ctx, req)
	if err != nil || c.Offset == 0 || len(c.Data) == 0 || utf8.RuneStart(c.Data[0]) {
		return c, err
	}
	from := max(0, c.Offset-(utf8.UTFMax-1))
	before, err := g.Output(ctx, guest.OutputRequest{
		CallID: req.CallID, Stream: req.Stream, Offset: from, MaxBytes: int(c.Offset - from),
	})
	if err != nil {
		return c, err
	}
	n := split(before.Data, c.Data)
	c.Data = slices.Concat(before.Data[len(before.Data)-n:], c.Data)
	c.Offset -= int64(n)
	if len(c.Data) > req.MaxBytes {
		c.Data, c.EOF = c.Data[:req.MaxBytes], false
	}
	return c, nil
}

// split counts the bytes at the end of a that are one character together with
// the start of b.
func split(a, b []byte) int {
	for n := 1; n <= len(a); n++ {
		if !utf8.RuneStart(a[len(a)-n]) {
			continue
		}
		if _, size := utf8.DecodeRune(slices.Concat(a[len(a)-n:], b[:min(len(b), utf8.UTFMax)])); size > n {
			return n
		}
		return 0
	}
	return 0
}
