package publisher

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Changes are gathered until nothing has changed for quietTime, but for no
// longer than gatherTime.
const (
	quietTime  = 500 * time.Millisecond
	gatherTime = 5 * time.Second
)

// A watch notices changes below folders. It may miss some: the system bounds
// how much can be watched, and network file systems tell nothing. Whoever
// uses it looks by itself now and then as well.
type watch struct {
	log     *slog.Logger
	w       *fsnotify.Watcher // nil: nothing can be watched
	raw     chan struct{}     // something changed; at most one note waits
	limited sync.Once         // the limit is logged once
}

// newWatch makes a watch; run must be called to turn it, and close to end it.
func newWatch(log *slog.Logger) *watch {
	x := &watch{log: log, raw: make(chan struct{}, 1)}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		x.limit("", err)
		return x
	}
	x.w = w
	return x
}

func (x *watch) close() {
	if x.w != nil {
		x.w.Close()
	}
}

func (x *watch) limit(path string, err error) {
	x.limited.Do(func() {
		x.log.Warn("not everything can be watched, the scheduled scan finds the rest", "path", path, "error", err)
	})
}

// folder watches one folder, without those below it. It may be watched
// already, or not be there.
func (x *watch) folder(path string) {
	if x.w == nil {
		return
	}
	if err := x.w.Add(path); err != nil && !os.IsNotExist(err) {
		x.limit(path, err)
	}
}

// tree watches a folder and all below it, but for those whose name begins
// with a dot.
func (x *watch) tree(root string) {
	if x.w == nil {
		return
	}
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return nil
		case path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		}
		x.folder(path)
		return nil
	})
}

// run reads events until ctx ends, and sends to out when changes have come to
// rest. Folders that appear in a watched one are watched too if deep is set.
func (x *watch) run(ctx context.Context, deep bool, out chan<- struct{}) {
	var gathering sync.WaitGroup
	gathering.Go(func() { debounce(ctx, x.raw, out, quietTime, gatherTime) })
	defer gathering.Wait()
	if x.w == nil {
		return
	}
	for {
		select {
		case e, ok := <-x.w.Events:
			if !ok {
				return
			}
			x.event(e, deep)
		case err, ok := <-x.w.Errors:
			if !ok {
				return
			}
			x.log.Debug("watch", "error", err) // events were lost: look
			x.note()
		case <-ctx.Done():
			return
		}
	}
}

func (x *watch) event(e fsnotify.Event, deep bool) {
	if e.Op == fsnotify.Chmod || strings.HasPrefix(filepath.Base(e.Name), ".") {
		return
	}
	if deep && e.Has(fsnotify.Create) {
		if info, err := os.Lstat(e.Name); err == nil && info.IsDir() {
			x.tree(e.Name)
		}
	}
	x.note()
}

func (x *watch) note() { nudge(x.raw) }

// nudge leaves a note, if none waits.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// debounce turns many notes into few: one goes to out when none came in for
// quiet, at the latest most after the first.
func debounce(ctx context.Context, in <-chan struct{}, out chan<- struct{}, quiet, most time.Duration) {
	var calm, latest <-chan time.Time
	for {
		select {
		case <-in:
			calm = time.After(quiet)
			if latest == nil {
				latest = time.After(most)
			}
			continue
		case <-calm:
		case <-latest:
		case <-ctx.Done():
			return
		}
		calm, latest = nil, nil
		nudge(out)
	}
}
