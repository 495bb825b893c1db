package session_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// An error comes out of Temporal as it went in, and is not retried.
func TestErrorsTravel(t *testing.T) {
	converter := temporal.GetDefaultFailureConverter()
	for _, code := range session.Codes() {
		sent := session.Wrap(errors.New("a cause"), code, "do %s", "this")
		err := converter.FailureToError(converter.ErrorToFailure(session.EncodeError(sent)))
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.True(t, app.NonRetryable())
		got := session.DecodeError(fmt.Errorf("wrapped: %w", err))
		require.Equal(t, code, got.Code)
		require.Equal(t, "do this", got.Message)
		require.ErrorContains(t, got.Unwrap(), "a cause")
		require.EqualError(t, got, string(code)+": do this")
	}
}

func TestForeignErrorsAreInternal(t *testing.T) {
	for _, err := range []error{
		errors.New("secret detail"), temporal.NewApplicationError("secret detail", "Other"), temporal.NewCanceledError(),
	} {
		got := session.DecodeError(err)
		require.Equal(t, session.Internal, got.Code)
		require.Equal(t, "internal error", got.Message)
		require.ErrorIs(t, got, err)
	}
	require.Equal(t, session.Internal, session.CodeOf(errors.New("x")))
	require.Empty(t, session.CodeOf(nil))
	require.Equal(t, session.Lost, session.CodeOf(fmt.Errorf("wrapped: %w", session.Errorf(session.Lost, "x"))))
	require.Empty(t, session.FailureType(errors.New("x")))
	require.Equal(t, session.FailureDraining, session.FailureType(temporal.NewApplicationError("x", session.FailureDraining)))
}

func TestDigest(t *testing.T) {
	digest := func(operation string, in any) string {
		d, err := session.Digest(operation, in)
		require.NoError(t, err)
		return d
	}
	env := func(names ...string) map[string]string {
		m := map[string]string{}
		for _, n := range names {
			m[n] = n
		}
		return m
	}
	a := digest("run_command", session.RunCommandIn{Command: "x", Env: env("A", "B", "C", "D")})
	require.Equal(t, a, digest("run_command", &session.RunCommandIn{Command: "x", Env: env("D", "C", "B", "A")}))
	require.NotEqual(t, a, digest("read_file", session.RunCommandIn{Command: "x", Env: env("A", "B", "C", "D")}))
	require.NotEqual(t, a, digest("run_command", session.RunCommandIn{Command: "y", Env: env("A", "B", "C", "D")}))
	zero := 0
	require.NotEqual(t, digest("run_command", session.RunCommandIn{Command: "x"}),
		digest("run_command", session.RunCommandIn{Command: "x", WaitSeconds: &zero}), "0 is not the default")
}
