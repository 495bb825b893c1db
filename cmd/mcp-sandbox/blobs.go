package main

import (
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/internal/blobstore"
)

const (
	// blobsName is the blob directory's name in the data dir.
	blobsName    = "blobs"
	blobDirUsage = "directory through which cp passes contents (default <data-dir>/" + blobsName + "); where cp and a worker have different data dirs, one that both can reach"
	// pruneEvery is how often old contents are looked for.
	pruneEvery = time.Hour
)

// openBlobs opens the store in a directory.
func openBlobs(dir string) (*blobstore.Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return blobstore.Open(dir)
}

// keptBlobs is a store that is pruned now and then.
type keptBlobs struct {
	store *blobstore.Store
	end   chan struct{}
	work  sync.WaitGroup
}

func keepBlobs(dir string, log *slog.Logger) (*keptBlobs, error) {
	store, err := openBlobs(dir)
	if err != nil {
		return nil, err
	}
	k := &keptBlobs{store: store, end: make(chan struct{})}
	k.work.Go(func() {
		tick := time.NewTicker(pruneEvery)
		defer tick.Stop()
		for {
			if err := store.Prune(blobstore.Retention); err != nil {
				log.Warn("old contents not removed", "directory", store.Dir(), "error", err)
			}
			select {
			case <-tick.C:
			case <-k.end:
				return
			}
		}
	})
	return k, nil
}

func (k *keptBlobs) stop() {
	close(k.end)
	k.work.Wait()
}
