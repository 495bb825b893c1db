package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func TestOlderThan(t *testing.T) {
	limit := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	at := func(id, created string) session.OwnedSnapshot {
		return session.OwnedSnapshot{SnapshotInfo: session.SnapshotInfo{SnapshotID: id, CreatedAt: created}}
	}
	require.Equal(t, []string{"older", "elsewhere"}, olderThan([]session.OwnedSnapshot{
		at("newer", session.Time(limit.Add(time.Millisecond))),
		at("same", session.Time(limit)),
		at("older", session.Time(limit.Add(-time.Millisecond))),
		at("elsewhere", "2026-07-01T13:59:59+02:00"),
		at("unknown", ""),
	}, limit))
}
