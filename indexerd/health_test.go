package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/audit"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// codes are the codes of a report, and whether it says ready.
func codes(r monitor.Report) (all []string, ready bool) {
	for _, x := range r.Reasons {
		all = append(all, x.Code)
	}
	return all, r.Ready()
}

// TestHealthFollowsProgress judges figures as they are, and then as they are a
// while later.
func TestHealthFollowsProgress(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	healthy := func() indexer.Figures {
		f := indexer.Figures{Sessions: 1}
		f.Certificate.NotAfter = envelope.At(start.Add(300 * 24 * time.Hour))
		f.Log.Released, f.Log.Published, f.Log.PublishedAt = 10, 10, start.Add(-time.Hour)
		return f
	}
	for _, tt := range []struct {
		name  string
		first func(f *indexer.Figures)
		then  func(f *indexer.Figures) // nil: as it was
		after time.Duration
		err   error
		want  []string
		ready bool
	}{
		{"nothing to do is well", nil, nil, time.Hour, nil, nil, true},
		{"proposals that are committed are well", func(f *indexer.Figures) { f.Log.Queued = 5 }, func(f *indexer.Figures) { f.Log.Queued, f.Log.Commits = 5, 9 }, time.Hour, nil, nil, true},
		{"proposals that are not", func(f *indexer.Figures) { f.Log.Queued = 5 }, nil, time.Minute, nil, []string{"writer_stalled"}, false},
		{"a checkpoint may be old when there is nothing new", nil, nil, 24 * time.Hour, nil, nil, true},
		{"entries that are being published", func(f *indexer.Figures) { f.Log.Released = 11 }, nil, time.Second, nil, nil, true},
		{"entries that are not published", func(f *indexer.Figures) { f.Log.Released = 11 }, nil, 2 * time.Minute, nil, []string{"checkpoint_old"}, false},
		{"a disk that does not answer is asked nothing more", func(f *indexer.Figures) { f.Disk.Stalled, f.Log.Released = durable.ErrStalled, 11 }, nil, 0, nil, []string{"disk_stalled"}, false},
		{"a full disk", func(f *indexer.Figures) { f.Disk.Full = durable.ErrFull }, nil, 0, nil, []string{"disk_full"}, false},
		{"a failed store", nil, nil, 0, errors.New("failed"), []string{"store_failed"}, false},
		{"a frozen log", func(f *indexer.Figures) { f.Frozen = &indexer.Frozen{Reason: "so"} }, nil, 0, nil, []string{"frozen"}, false},
		{"a clock that is behind", nil, func(f *indexer.Figures) { f.Publications.Clock = 1 }, time.Second, nil, []string{"clock_behind"}, false},
		{"too much at once", nil, func(f *indexer.Figures) { f.Log.Overloaded = 3 }, time.Second, nil, []string{"overloaded"}, true},
		{"a witness that contradicts", func(f *indexer.Figures) { f.Publications.Alarms = 1 }, nil, 0, nil, []string{"witness_contradicts"}, false},
		{"a witness that cosigns nothing", func(f *indexer.Figures) { f.Witnesses = []witness.State{{Name: "ann", Size: 3}} }, nil, 11 * time.Minute, nil, []string{"witness_behind"}, true},
		{"a witness that is on its way", func(f *indexer.Figures) { f.Witnesses = []witness.State{{Name: "ann", Size: 3}} },
			func(f *indexer.Figures) { f.Witnesses = []witness.State{{Name: "ann", Size: 4}} }, 11 * time.Minute, nil, nil, true},
		{"agreements, and nobody there", func(f *indexer.Figures) { f.Sessions = 0 }, nil, 16 * time.Minute, nil, []string{"no_session"}, true},
		{"a consumer that is told nothing", func(f *indexer.Figures) { f.Feed.Lag = 4 }, nil, 11 * time.Minute, nil, []string{"feed_behind"}, true},
		{"compaction that does not keep up", func(f *indexer.Figures) { f.Store.L0Sublevels = 30 }, nil, 0, nil, []string{"compaction_behind"}, true},
		{"writes that are held back", nil, func(f *indexer.Figures) { f.Store.WriteStalls = 1 }, time.Second, nil, []string{"writes_held_back"}, true},
		{"a certificate near its end", func(f *indexer.Figures) { f.Certificate.NotAfter = envelope.At(start.Add(48 * time.Hour)) }, nil, 0, nil, []string{"certificate_ending"}, true},
		{"a certificate that has ended", func(f *indexer.Figures) { f.Certificate.NotAfter = envelope.At(start) }, nil, 0, nil, []string{"certificate_ended"}, false},
		{"no certificate", func(f *indexer.Figures) { f.Certificate.NotAfter = envelope.Time{} }, nil, 0, nil, []string{"certificate_missing"}, false},
		{"a configuration that is not taken up", nil, nil, 0, nil, []string{"configuration_not_read"}, true},
		{"files that are not taken up", func(f *indexer.Figures) { f.Certificate.Problem, f.Trust.Problem = "a", "b" }, nil, 0, nil, []string{"certificate_not_renewed", "trust_not_read"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := start
			loaded := func() (l cli.Loaded) {
				if slices.Contains(tt.want, "configuration_not_read") {
					l.Problem = "line 3"
				}
				return l
			}
			w := &watcher{loaded: loaded, now: func() time.Time { return now }, publish: time.Second, live: func() int { return 1 }, history: new(monitor.History), witnesses: make(map[string]*monitor.Progress)}
			f := healthy()
			if tt.first != nil {
				tt.first(&f)
			}
			w.judge(f, tt.err)
			now = now.Add(tt.after)
			if tt.then != nil {
				f = healthy()
				tt.then(&f)
			}
			if got, ready := codes(w.judge(f, tt.err)); !slices.Equal(got, tt.want) || ready != tt.ready {
				t.Errorf("%q, ready: %t; want %q, %t", got, ready, tt.want, tt.ready)
			}
		})
	}
}

func TestEveryCommandIsWrittenDownOrReads(t *testing.T) {
	dir := t.TempDir()
	if unknown := audit.Commands(newRoot(), &dir, changing(), reading()); len(unknown) > 0 {
		t.Errorf("in neither list: %q", unknown)
	}
	for _, c := range changing() {
		if slices.Contains(reading(), c) {
			t.Errorf("%s is in both lists", c)
		}
	}
}
