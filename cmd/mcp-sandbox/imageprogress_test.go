package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuildLog(t *testing.T) {
	const output = "image: pulling base\nlayer 1\rlayer 2\rlayer 3\nimage: building x\nGet:1 a\nGet:2 b\n"
	t.Run("on a terminal", func(t *testing.T) {
		var w bytes.Buffer
		b := &buildLog{w: &w, line: &progress{w: &w, width: func() int { return 80 }}}
		for _, piece := range []string{output[:9], output[9:30], output[30:]} { // lines in pieces
			n, err := b.Write([]byte(piece))
			require.NoError(t, err)
			require.Len(t, piece, n)
		}
		require.Contains(t, w.String(), "image: pulling base\n")
		require.Contains(t, w.String(), "image: building x\n")
		require.NotContains(t, w.String(), "layer 2\n", "what tools print is one line of progress")
		b.end(true)
		require.True(t, strings.HasSuffix(w.String(), "layer 1\nlayer 2\nlayer 3\nGet:1 a\nGet:2 b\n"), w.String())
	})
	t.Run("elsewhere", func(t *testing.T) {
		var w bytes.Buffer
		b := newBuildLog(&w)
		_, err := b.Write([]byte(output))
		require.NoError(t, err)
		b.end(true)
		require.Equal(t, output, w.String())
	})
}
