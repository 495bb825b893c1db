package session_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// temporalLimit is what Temporal takes of one payload.
const temporalLimit = 2 << 20

// Whatever the limits of operations allow fits into a payload, and what is small
// stays readable.
func TestPayloadsFit(t *testing.T) {
	text := func(alphabet string, n int) string {
		var b strings.Builder
		random := rand.New(rand.NewPCG(1, 2)) // the same every time
		for b.Len() < n {
			b.WriteByte(alphabet[random.IntN(len(alphabet))])
		}
		return b.String()
	}
	var control strings.Builder
	for c := range byte(0x20) {
		control.WriteByte(c + 1)
	}
	for name, alphabet := range map[string]string{
		"control characters": control.String(), "markup": "<>&", "quotes": `"\`, "base64": "ABCDEFGHIJKLMNOPabcdefghijkl0123456789+/",
	} {
		t.Run(name, func(t *testing.T) {
			stdin := text(alphabet, 262144)
			in := session.Request[session.RunCommandIn]{In: session.RunCommandIn{
				Command: text(alphabet, 262144), Stdin: &stdin, Env: map[string]string{"A": text(alphabet, 65000)},
			}}
			p, err := session.DataConverter().ToPayload(in)
			require.NoError(t, err)
			require.Less(t, proto.Size(p), temporalLimit)
			var back session.Request[session.RunCommandIn]
			require.NoError(t, session.DataConverter().FromPayload(p, &back))
			require.Equal(t, in, back)
		})
	}
	p, err := session.DataConverter().ToPayload(map[string]string{"a": text("abc", 200_000)})
	require.NoError(t, err)
	require.Equal(t, "json/plain", string(p.GetMetadata()["encoding"]))
}
