package main

import (
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// When something is taken for wrong.
const (
	outboxStuck = 10 * time.Minute // something is in the outbox, and nothing leaves it
	noSession   = 2 * time.Minute  // a grant is in force, and there is no session
	scanLate    = 10 * time.Minute // beyond three times rescan_interval
)

// An outbox is how long what is in it has waited.
type outbox struct {
	age   time.Duration // since it was empty
	stuck time.Duration // since anything left it
}

// A watcher judges how the publisher does, by what has moved since it looked
// before.
type watcher struct {
	figures func() (publisher.Figures, error)
	rescan  time.Duration
	loaded  func() cli.Loaded
	now     func() time.Time
	history *monitor.History
	began   time.Time

	// movesMu guards what follows, by series.
	movesMu       sync.Mutex
	filled, moved map[string]*monitor.Progress
}

func newWatcher(d *daemon, c config) *watcher {
	return &watcher{
		figures: d.p.Figures, rescan: c.Rescan, loaded: d.reload.Last, now: time.Now, history: new(monitor.History), began: time.Now(),
		filled: make(map[string]*monitor.Progress), moved: make(map[string]*monitor.Progress),
	}
}

// read reads the figures, and how long what waits has waited.
func (w *watcher) read() (figures, error) {
	f := figures{outboxes: make(map[string]outbox)}
	var err error
	if f.Figures, err = w.figures(); err != nil {
		return f, err
	}
	w.movesMu.Lock()
	defer w.movesMu.Unlock()
	now := w.now()
	for i := range f.Status.Indexers {
		s := &f.Status.Indexers[i]
		if w.filled[s.Series] == nil {
			w.filled[s.Series], w.moved[s.Series] = new(monitor.Progress), new(monitor.Progress)
		}
		waits := s.State == "in-force" && (s.Backlog > 0 || s.Pending) && s.Alarm == nil
		held := s.LimitedUntil.After(now) || s.Held != nil // by what both sides signed, or its operator's word
		f.outboxes[s.Series] = outbox{
			age:   w.filled[s.Series].Stuck(now, waits, 0),
			stuck: w.moved[s.Series].Stuck(now, waits && !held, f.revision(s)),
		}
	}
	return f, nil
}

// revision is how far an agreement has come in its collection's journal.
func (f *figures) revision(s *publisher.IndexerStatus) uint64 {
	for _, c := range f.Status.Collections {
		if c.Name == s.Collection {
			return c.Revision - min(s.Backlog, c.Revision)
		}
	}
	return 0
}

// report judges the figures of this moment.
func (w *watcher) report() monitor.Report {
	f, err := w.read()
	return w.judge(&f, err)
}

func (w *watcher) judge(f *figures, err error) (r monitor.Report) {
	now := w.now()
	if !r.Disk(f.Disk) {
		return r
	}
	if err != nil {
		r.Fail("store_failed", "%v", err)
		return r
	}
	if f.Clock != nil {
		r.Fail("clock_behind", "%v", f.Clock)
	}
	w.judgeAgreements(&r, f)
	w.judgeSessions(&r, f, now)
	w.judgeScans(&r, f, now)
	r.Identity(f.Status.Certificate, f.Status.Trust, now)
	r.Configuration(w.loaded())
	return r
}

// judgeAgreements warns of each whose outbox is stuck. If that is so of all that
// are in force, the daemon does not do its work.
func (w *watcher) judgeAgreements(r *monitor.Report, f *figures) {
	live, stuck := 0, 0
	for i := range f.Status.Indexers {
		s := &f.Status.Indexers[i]
		if s.Alarm != nil {
			r.Fail("alarm", "%s, %s: %s: %s", s.Identity, s.Collection, s.Alarm.Reason, s.Alarm.Detail)
		}
		if s.Alert {
			r.Warn("grant_ending", "%s, %s: %s", s.Identity, s.Collection, s.Expiry)
		}
		if s.Refused != nil && s.Refused.Count > 0 {
			r.Warn("pages_refused", "%s, %s: %d pages are not delivered; the command refused lists them", s.Identity, s.Collection, s.Refused.Count)
		}
		if s.Held != nil {
			r.Warn("over_quota", "%s, %s: %s", s.Identity, s.Collection, s.Held.Detail)
		}
		if s.State != "in-force" {
			continue
		}
		live++
		if o := f.outboxes[s.Series]; o.stuck >= outboxStuck {
			stuck++
			r.Warn("outbox_stuck", "%s, %s: %d revisions wait, and nothing has left for %s", s.Identity, s.Collection, s.Backlog, monitor.Ago(o.stuck))
		}
	}
	if live > 0 && stuck == live {
		r.Fail("all_outboxes_stuck", "no indexer takes anything")
	}
}

// judgeSessions does likewise with the indexers that there is no session with.
func (w *watcher) judgeSessions(r *monitor.Report, f *figures, now time.Time) {
	live := make(map[envelope.Name]bool)
	for _, s := range f.Status.Indexers {
		if s.State == "in-force" {
			live[s.Identity] = true
		}
	}
	without := 0
	for _, p := range f.Pulse.Peers {
		if !live[p.Indexer] || !p.Open.IsZero() {
			continue
		}
		since := p.Closed
		if since.IsZero() {
			since = w.began
		}
		if d := now.Sub(since); d >= noSession {
			without++
			r.Warn("no_session", "%s: none for %s: %s", p.Indexer, monitor.Ago(d), p.LastError)
		}
	}
	if without > 0 && without == len(live) {
		r.Fail("no_session_at_all", "there is a session with no indexer")
	}
}

func (w *watcher) judgeScans(r *monitor.Report, f *figures, now time.Time) {
	for _, s := range f.Pulse.Scans {
		if s.Error != "" {
			r.Warn("scan_failed", "%s: %s", s.Collection, s.Error)
		}
		since := s.Good
		if since.IsZero() {
			since = w.began
		}
		if d := now.Sub(since); d > 3*w.rescan+scanLate {
			r.Fail("scan_late", "%s: none has ended well for %s", s.Collection, monitor.Ago(d))
		}
	}
}

// The values of a sample of the history.
const (
	sampleBacklog = iota
	samplePages
	sampleOut
	sampleIn
	sampleSessions
)

// look takes a sample, and lets the judgement see what moves.
func (w *watcher) look() {
	f, err := w.read()
	if err != nil || f.Disk.Stalled != nil {
		return
	}
	var backlog, sessions uint64
	for _, s := range f.Status.Indexers {
		if s.State == "in-force" {
			backlog += s.Backlog
		}
	}
	var pages, out, in uint64
	for _, p := range f.Pulse.Peers {
		pages, out, in = pages+p.Pages, out+p.WireOut, in+p.WireIn
		if !p.Open.IsZero() {
			sessions++
		}
	}
	w.history.Add(w.now(), float64(backlog), float64(pages), float64(out), float64(in), float64(sessions))
}
