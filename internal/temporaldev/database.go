package temporaldev

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite" // registers the "sqlite" driver and plugin
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

const (
	databaseFile = "temporal.db"

	// schemaVersion names the tables that the server in go.mod creates. The server
	// has no migration for SQLite, so another version is refused. A test compares
	// the tables with a stored digest: when a new server changes them, raise this.
	schemaVersion = 1

	// lockWait is how long to wait for another process's write to end.
	lockWait = 3 * time.Second
	// checkBudget bounds the consistency check, which reads the whole file. What
	// it did not get to shows as an error of the call that meets it.
	checkBudget = 2 * time.Second
)

// Why a database cannot be used. The error that wraps them names the file and what
// to do about it.
var (
	ErrDatabaseDamaged = errors.New("temporal database is damaged")
	ErrDatabaseLocked  = errors.New("temporal database is locked")
	ErrDatabaseVersion = errors.New("temporal database has another schema")
)

// prepareDatabase makes the database at path if there is none, and otherwise
// checks that this server can work with it.
func prepareDatabase(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return createDatabase(ctx, path)
	case err != nil:
		return fmt.Errorf("temporal database: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("temporal database: %s is not a file: move it aside", path)
	case info.Size() == 0:
		return damaged(path, errors.New("the file is empty")) // never left by createDatabase
	}
	return checkDatabase(ctx, path)
}

// createDatabase builds the database under another name and moves it into place, so
// that a crash leaves no half of one. A -wal file left by a deleted database would
// be replayed into the new one: it goes first.
func createDatabase(ctx context.Context, path string) error {
	partial := path + ".new"
	for _, name := range []string{partial, partial + "-journal", path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("temporal database: %w", err)
		}
	}
	// Made here for its mode: SQLite would use the umask.
	file, err := os.OpenFile(partial, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the caller's own data dir
	if err != nil {
		return fmt.Errorf("temporal database: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("temporal database: %w", err)
	}
	if err := withDatabase(ctx, partial, writeSchema); err != nil {
		return fmt.Errorf("temporal database: create schema: %w", err)
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("temporal database: %w", err)
	}
	return nil
}

func writeSchema(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	if err := sqliteschema.SetupSchemaOnDB(schemaTarget{ctx: ctx, tx: tx}); err != nil {
		return err
	}
	const record = `CREATE TABLE mcp_sandbox_schema (version INTEGER NOT NULL, server TEXT NOT NULL)`
	if _, err := tx.ExecContext(ctx, record); err != nil {
		return err
	}
	const insert = `INSERT INTO mcp_sandbox_schema (version, server) VALUES (?, ?)`
	if _, err := tx.ExecContext(ctx, insert, schemaVersion, headers.ServerVersion); err != nil {
		return err
	}
	return tx.Commit()
}

// schemaTarget is the one method of AdminDB that SetupSchemaOnDB calls. The
// plugin's own never closes its connections.
type schemaTarget struct {
	sqlplugin.AdminDB
	ctx context.Context //nolint:containedctx // Exec takes none
	tx  *sql.Tx
}

// Exec implements sqlplugin.AdminDB.
func (t schemaTarget) Exec(stmt string, args ...any) error {
	_, err := t.tx.ExecContext(t.ctx, stmt, args...)
	return err
}

func checkDatabase(ctx context.Context, path string) error {
	var version int
	var server string
	err := withDatabase(ctx, path, func(ctx context.Context, db *sql.DB) error {
		// A write lock, at once given back, meets every lock another process may hold.
		if _, err := db.ExecContext(ctx, "BEGIN IMMEDIATE; ROLLBACK"); err != nil {
			return err
		}
		var tables int
		const have = `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'mcp_sandbox_schema'`
		if err := db.QueryRowContext(ctx, have).Scan(&tables); err != nil || tables == 0 {
			return err
		}
		if err := db.QueryRowContext(ctx, `SELECT version, server FROM mcp_sandbox_schema`).Scan(&version, &server); err != nil {
			return err
		}
		return quickCheck(ctx, db)
	})
	if err != nil {
		return explain(path, err)
	}
	switch version {
	case schemaVersion:
		return nil
	case 0:
		return fmt.Errorf("%w: %s was not made by mcp-sandbox: %s", ErrDatabaseVersion, path, asideRemedy)
	default:
		return fmt.Errorf("%w: %s has version %d, made by Temporal %s, and this mcp-sandbox needs version %d (Temporal %s): "+
			"there is no migration; run the mcp-sandbox that made it, or %s",
			ErrDatabaseVersion, path, version, server, schemaVersion, headers.ServerVersion, asideRemedy)
	}
}

func quickCheck(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, checkBudget)
	defer cancel()
	var verdict string
	err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&verdict)
	switch {
	case ctx.Err() != nil:
		return nil // out of time; the caller's own context is looked at where it matters
	case err != nil:
		return err
	case verdict != "ok":
		return fmt.Errorf("%w: %s", ErrDatabaseDamaged, verdict)
	}
	return nil
}

// withDatabase opens path, which must exist, on a connection of its own.
func withDatabase(ctx context.Context, path string, do func(context.Context, *sql.DB) error) (err error) {
	query := url.Values{"mode": {"rw"}, "_pragma": {fmt.Sprintf("busy_timeout=%d", lockWait.Milliseconds())}}
	db, err := sql.Open("sqlite", "file:"+uriPath(path)+"?"+query.Encode())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	return do(ctx, db)
}

// uriPath escapes what an SQLite URI would take for something else (?, #, %).
func uriPath(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// Result codes of SQLite (https://www.sqlite.org/rescode.html), without the upper
// bits that tell variants apart.
const (
	sqliteBusy    = 5
	sqliteLocked  = 6
	sqliteCorrupt = 11
	sqliteNotADB  = 26
)

// sqliteError is the driver's error, whose type this module need not import.
type sqliteError interface {
	error
	Code() int
}

const asideRemedy = "move it aside with its -wal and -shm files to start with an empty one (sessions and their history are then gone)"

// explain turns SQLite's codes into errors that say what to do.
func explain(path string, err error) error {
	if errors.Is(err, ErrDatabaseDamaged) {
		return damaged(path, err)
	}
	if coded, ok := errors.AsType[sqliteError](err); ok {
		switch coded.Code() & 0xff {
		case sqliteBusy, sqliteLocked:
			return fmt.Errorf("%w: another process holds %s (an mcp-sandbox on the same data dir, or a tool that has it open): stop it, or use another data dir: %w",
				ErrDatabaseLocked, path, err)
		case sqliteCorrupt, sqliteNotADB:
			return damaged(path, err)
		}
	}
	return fmt.Errorf("temporal database %s: %w", path, err)
}

func damaged(path string, cause error) error {
	return fmt.Errorf("%w: %s: %w: %s, or put back a backup", ErrDatabaseDamaged, path, cause, asideRemedy)
}
