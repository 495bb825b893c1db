package supervisor

import (
	"path/filepath"
	"sync"
)

// turns has calls that change one file take turns: no system call compares and
// renames in one, and an edit would undo what another call writes in that gap.
// Links that lead to one file by several paths are not seen. A turn is bounded by
// Options.FileTimeout. The zero value is ready.
type turns struct {
	mu   sync.Mutex
	held map[string]*turn
}

type turn struct {
	mu    sync.Mutex
	users int // that hold it or wait
}

// take waits for the turn of a path, as a request names it. The caller must call
// done.
func (t *turns) take(dir, path string) (done func()) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	t.mu.Lock()
	if t.held == nil {
		t.held = map[string]*turn{}
	}
	mine := t.held[path]
	if mine == nil {
		mine = &turn{}
		t.held[path] = mine
	}
	mine.users++
	t.mu.Unlock()
	mine.mu.Lock()
	return func() {
		mine.mu.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.held, path)
		}
	}
}
