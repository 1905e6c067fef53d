package identity

import (
	"cmp"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A Watch keeps the trust and the certificate of a running program in step with
// their files: it looks when the system reports a change, and every pollEvery
// in any case, since not every file system reports.
type Watch struct {
	Trust *Trust
	Local *Local
	Now   func() time.Time
	Log   *slog.Logger
	// Changed is called behind each change that was taken up, by Run's own
	// goroutine. It must not block. Nil: nobody is told.
	Changed func()

	// Set by tests: the system reports nothing, and how often to look in any case,
	// 0 for pollEvery.
	blind bool
	every time.Duration
}

// Times of a Watch. Reports are gathered until none has come for quietTime, but
// for no longer than gatherTime.
const (
	quietTime  = 50 * time.Millisecond
	gatherTime = 500 * time.Millisecond
	pollEvery  = 2 * time.Second
)

// Run looks until ctx ends.
func (w Watch) Run(ctx context.Context) {
	f := newFolders(w.Log, w.blind)
	defer f.close()
	poll := time.NewTicker(cmp.Or(w.every, pollEvery))
	defer poll.Stop()
	var calm, latest <-chan time.Time
	seen := noticed{version: w.Trust.Version()}
	for {
		// Watched first, so that what changes while it is read is noticed.
		f.watch(append(w.Local.folders(), w.Trust.folders()...))
		w.look(&seen)
		for waiting := true; waiting; {
			select {
			case <-f.events():
				if latest == nil {
					latest = time.After(gatherTime)
				}
				calm = time.After(quietTime)
			case <-f.errors(): // reports were lost
				waiting = false
			case <-calm:
				waiting = false
			case <-latest:
				waiting = false
			case <-poll.C:
				waiting = false
			case <-ctx.Done():
				return
			}
		}
		calm, latest = nil, nil
	}
}

// noticed is what a Watch has told of.
type noticed struct {
	version uint64 // of the trust; somebody else's look may have found the change
	problem string // of the certificate, as it was logged
}

// look takes up what changed. A problem of the certificate is logged once; those
// of the trust are reported by Trust itself.
func (w Watch) look(seen *noticed) {
	w.Trust.Refresh()
	version := w.Trust.Version()
	changed := version != seen.version
	seen.version = version
	if changed {
		s := w.Trust.Status()
		w.Log.Info("trust changed", "identities", s.Identities, "authorities", s.Authorities)
	}
	renewed, err := w.Local.Renew(w.Now(), nil)
	if renewed {
		w.Log.Info("certificate renewed", "not_after", w.Local.Status(w.Now()).NotAfter)
	}
	if w.Changed != nil && (changed || renewed) {
		w.Changed()
	}
	before := seen.problem
	seen.problem = ""
	if err != nil {
		seen.problem = err.Error()
	}
	if seen.problem != before && err != nil {
		w.Log.Error("certificate", "error", err)
	}
}

// folders are those that tell when the trust changes: the store's own, and, if
// that is reached by a link, the one in which the link may be swapped.
func (t *Trust) folders() []string {
	dir := filepath.Clean(t.dir)
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return []string{dir, filepath.Dir(dir)}
	}
	return []string{dir}
}

// folders is the few folders that the system watches for us.
type folders struct {
	log     *slog.Logger
	w       *fsnotify.Watcher // nil: nothing can be watched
	watched []string
	told    bool // that not everything is watched
}

func newFolders(log *slog.Logger, blind bool) *folders {
	f := &folders{log: log}
	if blind {
		return f
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		f.limit("", err)
		return f
	}
	f.w = w
	return f
}

func (f *folders) close() {
	if f.w != nil {
		f.w.Close()
	}
}

// watch watches these folders and no others, where links lead now. A link that is
// swapped before its own folder is watched is not reported: so they are followed
// once more behind that, and all is done again if they lead elsewhere, three
// times in all.
func (f *folders) watch(paths []string) {
	if f.w == nil {
		return
	}
	for range 3 {
		want := followed(paths)
		f.replace(want)
		if slices.Equal(want, followed(paths)) {
			return
		}
	}
}

// followed is where the links in paths lead, each folder once.
func followed(paths []string) []string {
	var all []string
	for _, p := range paths {
		real, err := filepath.EvalSymlinks(p)
		if err == nil && !slices.Contains(all, real) {
			all = append(all, real)
		}
	}
	return all
}

func (f *folders) replace(want []string) {
	for _, p := range f.watched {
		if !slices.Contains(want, p) {
			f.w.Remove(p) // it may be gone already
		}
	}
	f.watched = f.watched[:0]
	for _, p := range want {
		// Again, also if it is watched: the folder may be another under its name.
		if err := f.w.Add(p); err != nil {
			f.limit(p, err)
			continue
		}
		f.watched = append(f.watched, p)
	}
}

func (f *folders) limit(path string, err error) {
	if !f.told {
		f.told = true
		f.log.Warn("changes of trust and certificates are not reported by the system and are looked for every 2 s", "path", path, "error", err)
	}
}

func (f *folders) events() <-chan fsnotify.Event {
	if f.w == nil {
		return nil
	}
	return f.w.Events
}

func (f *folders) errors() <-chan error {
	if f.w == nil {
		return nil
	}
	return f.w.Errors
}
