package site

import (
	"context"
	"os"
	"path"
	"sync"
)

// statWorkers is how many goroutines ask the file system at once, each for one
// run. Disks and network file systems answer many as fast as one.
const statWorkers = 16

// A stated run has its entries' stamps once ready is closed.
type stated struct {
	entries []entry
	ready   chan struct{}
}

// list walks the folder, and has stamps filled in, at most 3×statWorkers runs ahead. A stamp that cannot be had stays zero: the reader
// will tell why. What ended the walk is in err when the channel is closed.
func (a *ahead) list(ctx context.Context, workers *sync.WaitGroup) <-chan *stated {
	runs := make(chan *stated, statWorkers) // those who take them in order wait for each to be ready
	work := make(chan *stated, statWorkers)
	w := *a.walk
	w.emit = func(entries []entry) error {
		r := &stated{entries, make(chan struct{})}
		select {
		case work <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case runs <- r:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	workers.Go(func() {
		defer close(runs)
		defer close(work)
		a.err = w.folder(ctx, ".")
	})
	for range statWorkers {
		workers.Go(func() {
			for r := range work {
				statFolder(w.root, r.entries)
				close(r.ready)
			}
		})
	}
	return runs
}

// statFolder asks for entries of one folder.
func statFolder(root *os.Root, run []entry) {
	folder, err := root.OpenRoot(path.Dir(run[0].location))
	if err != nil {
		return
	}
	defer folder.Close()
	for i := range run {
		info, err := folder.Lstat(path.Base(run[i].location))
		if err == nil && info.Mode().IsRegular() {
			run[i].stamp = stampOf(info)
		}
	}
}
