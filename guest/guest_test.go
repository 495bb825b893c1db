package guest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// The client's tests stand in guest/supervisor, against a real guest.

func TestValidCallID(t *testing.T) {
	for _, id := range []string{"a", "A-b_9", "0191e7a2-0000-7000-8000-000000000000", strings.Repeat("x", guest.MaxCallID)} {
		require.True(t, guest.ValidCallID(id), id)
	}
	for _, id := range []string{"", ".", "..", "a/b", "a b", "a\n", "é", "a\x00", strings.Repeat("x", guest.MaxCallID+1)} {
		require.False(t, guest.ValidCallID(id), "%q", id)
	}
}

func TestCodeOf(t *testing.T) {
	err := fmt.Errorf("run: %w", guest.Errorf(guest.CodeLost, "gone %d", 1))
	require.Equal(t, guest.CodeLost, guest.CodeOf(err))
	require.EqualError(t, err, "run: guest: lost: gone 1")
	require.Empty(t, guest.CodeOf(errors.New("other")))
	require.Empty(t, guest.CodeOf(nil))
}

func TestStreamCut(t *testing.T) {
	require.False(t, guest.Stream{Head: []byte("abc"), Total: 3}.Cut())
	require.True(t, guest.Stream{Head: []byte("a"), Tail: []byte("c"), Total: 3, Logged: 3}.Cut())
}
