package defaultsession

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Folders of the records, below the store's.
const (
	namesDir       = "names"
	connectionsDir = "connections"
)

// connectionRecords of connections that cannot come back are removed: no session
// lives longer.
const connectionRecords = 31 * 24 * time.Hour

// record is a file: the session that a name or a connection stands for.
type record struct {
	CallID    string `json:"call_id"` // it is started under
	SessionID string `json:"session_id"`
	Started   bool   `json:"started"` // false: it may have been
	// Unused: no call has used it, so that it may still be filled.
	Unused bool      `json:"unused,omitempty"`
	At     time.Time `json:"at"`
}

// readRecord gives the zero record where there is none.
func readRecord(path string) (r record, err error) {
	b, err := os.ReadFile(path) //nolint:gosec // the path is ours
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return record{}, fmt.Errorf("default session: %s: %w; remove the file to have a new session", path, err)
	}
	return r, nil
}

// writeRecord replaces a file in one step, so that a crash leaves the old record
// or the new one.
func writeRecord(path string, r record) (err error) {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("default session: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return fmt.Errorf("default session: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("default session: %w", err)
		}
	}()
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// sweep removes the records of connections of long ago.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > connectionRecords {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
