package activities

import (
	"context"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
)

// For the tests of package activities_test.
var (
	CommandOut = commandOut
	ShapeChunk = shapeChunk
)

// LastLine is what a progress notification shows of output.
func LastLine(b []byte) string { return lastLine(b) }

// Follow follows a command until ctx ends; details is the heartbeat.
func Follow(ctx context.Context, callID string, g guest.API) (details func() any) {
	p := &commandProgress{callID: callID}
	go p.follow(ctx, g)
	return p.details
}
