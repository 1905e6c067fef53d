package main

import (
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
)

// When something is taken for wrong.
const (
	writerStuck   = 30 * time.Second // proposals wait, and none is committed
	checkpointOld = time.Minute      // beyond publish_interval, while entries wait to be published
	witnessBehind = 10 * time.Minute // entries that a witness has not cosigned
	noSession     = 15 * time.Minute // agreements are in force, and no publisher is there
	refusedLately = time.Minute      // overload, clock: what is warned of was seen within it
	l0Layers      = durable.HeldLayers * 3 / 4
	feedBehind    = 10 * time.Minute // a consumer is behind, and is told nothing
)

// A watcher judges how the indexer does, by what has moved since it looked before.
type watcher struct {
	figures func() (indexer.Figures, error)
	publish time.Duration // publish_interval
	live    func() int    // agreements in force
	loaded  func() cli.Loaded
	now     func() time.Time
	history *monitor.History

	// movesMu guards what follows.
	movesMu                  sync.Mutex
	writer, published        monitor.Progress
	sessions, feed           monitor.Progress
	overloads, clock, stalls monitor.Rise
	witnesses                map[string]*monitor.Progress
}

func newWatcher(d *daemon, c config) *watcher {
	return &watcher{
		figures: d.figures, publish: c.Publish, live: d.liveAgreements, loaded: d.reload.Last, now: time.Now,
		history: new(monitor.History), witnesses: make(map[string]*monitor.Progress),
	}
}

// report judges the figures of this moment.
func (w *watcher) report() monitor.Report {
	f, err := w.figures()
	return w.judge(f, err)
}

func (w *watcher) judge(f indexer.Figures, err error) (r monitor.Report) {
	w.movesMu.Lock()
	defer w.movesMu.Unlock()
	now := w.now()
	if !r.Disk(f.Disk) {
		return r
	}
	if err != nil {
		r.Fail("store_failed", "%v", err)
		return r
	}
	if f.Frozen != nil {
		r.Fail("frozen", "the log signs nothing more: %s", f.Frozen.Reason)
	}
	w.judgeLog(&r, &f, now)
	w.judgeWitnesses(&r, &f, now)
	w.judgeSessions(&r, &f, now)
	if f.Store.L0Sublevels >= l0Layers {
		r.Warn("compaction_behind", "%d layers of tables wait at level 0; writes will be held back", f.Store.L0Sublevels)
	}
	if w.stalls.Within(now, refusedLately, f.Store.WriteStalls) {
		r.Warn("writes_held_back", "the store had writes wait for compactions within the last minute")
	}
	r.Identity(f.Certificate, f.Trust, now)
	r.Configuration(w.loaded())
	return r
}

func (w *watcher) judgeLog(r *monitor.Report, f *indexer.Figures, now time.Time) {
	if d := w.writer.Stuck(now, f.Log.Queued > 0, f.Log.Commits); d >= writerStuck {
		r.Fail("writer_stalled", "%d proposals wait, and none has been committed for %s", f.Log.Queued, monitor.Ago(d))
	}
	waiting := f.Log.Released > f.Log.Published && f.Frozen == nil
	if d := w.published.Stuck(now, waiting, f.Log.Published); d >= w.publish+checkpointOld {
		r.Fail("checkpoint_old", "%d entries have waited for %s to be published; the checkpoint that is served is %s old",
			f.Log.Released-f.Log.Published, monitor.Ago(d), monitor.Ago(now.Sub(f.Log.PublishedAt)))
	}
	if w.clock.Within(now, refusedLately, f.Publications.Clock) {
		r.Fail("clock_behind", "the clock shows a time before one that was signed with; nothing is signed until it is set right")
	}
	if w.overloads.Within(now, refusedLately, f.Log.Overloaded) {
		r.Warn("overloaded", "batches were turned away within the last minute, since too much waits to be committed")
	}
	if f.Publications.Alarms > 0 {
		r.Fail("witness_contradicts", "witnesses contradicted this log %d times: a second copy of it may be running", f.Publications.Alarms)
	}
}

// judgeWitnesses warns of each that does not cosign what there is. What a missing
// quorum keeps from being published is an old checkpoint.
func (w *watcher) judgeWitnesses(r *monitor.Report, f *indexer.Figures, now time.Time) {
	for i := range f.Witnesses {
		s := &f.Witnesses[i]
		p := w.witnesses[s.Name]
		if p == nil {
			p = new(monitor.Progress)
			w.witnesses[s.Name] = p
		}
		if d := p.Stuck(now, s.Size < f.Log.Published, s.Size); d >= witnessBehind {
			r.Warn("witness_behind", "%s has cosigned nothing for %s, and lacks %d entries", s.Name, monitor.Ago(d), f.Log.Published-s.Size)
		}
	}
}

func (w *watcher) judgeSessions(r *monitor.Report, f *indexer.Figures, now time.Time) {
	waiting := f.Sessions == 0 && f.Frozen == nil && w.live() > 0
	if d := w.sessions.Stuck(now, waiting, f.Pulse.Sessions); d >= noSession {
		r.Warn("no_session", "agreements are in force, and no publisher has had a session for %s", monitor.Ago(d))
	}
	if d := w.feed.Stuck(now, f.Feed.Lag > 0, f.Feed.Items); d >= feedBehind {
		r.Warn("feed_behind", "a consumer of the feed is behind by %d changes, and was told nothing for %s", f.Feed.Lag, monitor.Ago(d))
	}
}

// The values of a sample of the history.
const (
	sampleEntries = iota
	samplePages
	samplePayload
	sampleQueue
	sampleSessions
	sampleLag
)

// look takes a sample, and lets the judgement see what moves.
func (w *watcher) look() {
	f, err := w.figures()
	w.judge(f, err)
	if err != nil || f.Disk.Stalled != nil {
		return
	}
	w.history.Add(w.now(), float64(f.Log.Released), float64(f.Pulse.Pages), float64(f.Pulse.Payload),
		float64(f.Log.Queued), float64(f.Sessions), float64(f.Feed.Lag))
}
