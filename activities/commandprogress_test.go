package activities_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func TestLastLine(t *testing.T) {
	for name, row := range map[string]struct{ in, want string }{
		"none":               {"", ""},
		"blank":              {"\n \n\r\n", ""},
		"one":                {"a\nb\n", "b"},
		"unfinished":         {"a\nb", "b"},
		"blank lines after":  {"a\n\n\n", "a"},
		"redrawn":            {"10%\r20%\r", "20%"},
		"coloured":           {"\x1b[1;31mred\x1b[0m \x1b[Kend\n", "red end"},
		"control characters": {"a\tb\x00c\x07\n", "a b c"},
		"not UTF-8":          {"caf\xe9\n", "caf\uFFFD"},
		"long":               {strings.Repeat("日", 100), strings.Repeat("日", 66) + " ..."},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, activities.LastLine([]byte(row.in))) })
	}
}

// printing is a guest whose command has printed so much.
type printing struct {
	guest.API
	out, err string
	asked    int
}

func (p *printing) Output(_ context.Context, req guest.OutputRequest) (guest.OutputChunk, error) {
	p.asked++
	text := p.out
	if req.Stream == guest.Stderr {
		text = p.err
	}
	offset := max(0, int64(len(text))+req.Offset)
	return guest.OutputChunk{Offset: offset, Data: []byte(text)[offset:]}, nil
}

// The stream that printed last is the one that is told of.
func TestCommandProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &printing{}
		ctx, stop := context.WithCancel(t.Context())
		details := activities.Follow(ctx, "c_1", g)
		at := func() session.CommandProgress {
			time.Sleep(2 * time.Second)
			synctest.Wait()
			said, ok := details().(session.CommandProgress)
			require.True(t, ok)
			return said
		}
		require.Equal(t, session.CommandProgress{CallID: "c_1"}, details())
		g.out = "one\n"
		require.Equal(t, session.CommandProgress{CallID: "c_1", LastLine: "one", Bytes: 4}, at())
		g.err = strings.Repeat("x\n", 2000) + "warning\n"
		require.Equal(t, session.CommandProgress{CallID: "c_1", LastLine: "warning", Bytes: 4012}, at())
		require.Equal(t, "warning", at().LastLine, "nothing new")
		stop()
		synctest.Wait()
		asked := g.asked
		time.Sleep(10 * time.Second)
		require.Equal(t, asked, g.asked)
	})
}
