package temporaldev_test

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestUnusableDatabase(t *testing.T) {
	made := t.TempDir()
	start(t, temporaldev.Options{DataDir: made}).Stop()
	whole, err := os.ReadFile(filepath.Join(made, "temporal.db"))
	require.NoError(t, err)
	holed := bytes.Clone(whole)
	for i := 4096; i < len(holed)-4096; i++ {
		holed[i] = 0xa5
	}

	for name, tc := range map[string]struct {
		content []byte
		spoil   string
		want    error
		text    string
	}{
		"empty":           {content: nil, want: temporaldev.ErrDatabaseDamaged, text: "the file is empty"},
		"zeros":           {content: make([]byte, 8192), want: temporaldev.ErrDatabaseDamaged, text: "move it aside"},
		"garbage":         {content: []byte(strings.Repeat("garbage ", 4096)), want: temporaldev.ErrDatabaseDamaged, text: "move it aside"},
		"cut short":       {content: whole[:len(whole)/2], want: temporaldev.ErrDatabaseDamaged, text: "move it aside"},
		"holed":           {content: holed, want: temporaldev.ErrDatabaseDamaged, text: "move it aside"},
		"newer":           {content: whole, spoil: "UPDATE mcp_sandbox_schema SET version = 99, server = '9.9.9'", want: temporaldev.ErrDatabaseVersion, text: "made by Temporal 9.9.9"},
		"somebody else's": {content: whole, spoil: "DROP TABLE mcp_sandbox_schema", want: temporaldev.ErrDatabaseVersion, text: "not made by mcp-sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "temporal.db")
			require.NoError(t, os.WriteFile(path, tc.content, 0o600))
			if tc.spoil != "" {
				exec(t, path, tc.spoil)
			}
			_, err := temporaldev.Start(t.Context(), temporaldev.Options{DataDir: dir})
			require.ErrorIs(t, err, tc.want)
			require.ErrorContains(t, err, tc.text)
			require.ErrorContains(t, err, path)
			t.Log(err)
		})
	}

	t.Run("locked", func(t *testing.T) {
		db := open(t, filepath.Join(made, "temporal.db"))
		_, err := db.Exec("BEGIN IMMEDIATE")
		require.NoError(t, err)
		_, err = temporaldev.Start(t.Context(), temporaldev.Options{DataDir: made})
		require.ErrorIs(t, err, temporaldev.ErrDatabaseLocked)
		t.Log(err)
	})
}

func TestDatabaseMadeAgainAfterMovingItAside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "temporal.db")
	// The remains of a database that was deleted without its log.
	require.NoError(t, os.WriteFile(path+"-wal", []byte("stale"), 0o600))
	require.NoError(t, os.WriteFile(path+".new", []byte("a crash while it was made"), 0o600))
	start(t, temporaldev.Options{DataDir: dir}).Stop()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, path+suffix+".old"); suffix == "" {
			require.NoError(t, err)
		}
	}
	start(t, temporaldev.Options{DataDir: dir}) // the same process, the same path
}

// A server whose tables differ from the stored digest cannot use the databases that
// exist: raise schemaVersion, and write the new digest with -update.
func TestSchemaIsTheKnownOne(t *testing.T) {
	dir := t.TempDir()
	start(t, temporaldev.Options{DataDir: dir}).Stop()
	rows, err := open(t, filepath.Join(dir, "temporal.db")).Query(
		"SELECT coalesce(sql, name) FROM sqlite_master ORDER BY type, name")
	require.NoError(t, err)
	defer rows.Close()
	digest := sha256.New()
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		digest.Write([]byte(line + "\n"))
	}
	require.NoError(t, rows.Err())
	got := hex.EncodeToString(digest.Sum(nil)) + "\n"
	const golden = "testdata/schema.sha256"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t *testing.T, path, statement string) {
	t.Helper()
	db := open(t, path)
	_, err := db.Exec(statement)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
