package site

import (
	"context"
	"os"
	"path"
	"sync"
)

// How many goroutines ask the file system at once, and for how many files of one
// folder each time. Disks and network file systems answer many as fast as one.
const (
	statWorkers = 16
	statRun     = 256
)

// stat fills in the stamps of entries, which ascend by location. One that cannot
// be had stays zero: the reader will tell why.
func stat(ctx context.Context, root *os.Root, entries []entry) {
	runs := make(chan []entry)
	var workers sync.WaitGroup
	for range statWorkers {
		workers.Go(func() {
			for run := range runs {
				statFolder(root, run)
			}
		})
	}
	defer workers.Wait()
	defer close(runs)
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && n < statRun && path.Dir(entries[n].location) == path.Dir(entries[0].location) {
			n++
		}
		select {
		case runs <- entries[:n]:
		case <-ctx.Done():
			return
		}
		entries = entries[n:]
	}
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
