package docker

import (
	"testing"
	"time"
)

// For the tests of package docker_test.

// Classify reads an engine's word of itself.
var Classify = classify

// RequestName is how spans of requests to the engine are named.
var RequestName = requestName

// UseAgain sets how exactly the use of derived images is noted in a test.
func UseAgain(t *testing.T, d time.Duration) {
	t.Helper()
	before := useAgain
	useAgain = d
	t.Cleanup(func() { useAgain = before })
}
