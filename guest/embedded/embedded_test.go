package embedded_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest/embedded"
)

func TestBinarySaysWhatToDo(t *testing.T) {
	_, err := embedded.Binary("riscv64")
	require.ErrorContains(t, err, "only for amd64 and arm64")

	data, err := embedded.Binary(embedded.AMD64)
	if err != nil {
		require.ErrorContains(t, err, "run `make build`")
		return
	}
	require.Equal(t, "\x7fELF", string(data[:4]))
	require.Len(t, embedded.Version(), 12)
}
