package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/audit"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

var start = time.Unix(1_800_000_000, 0)

// healthyFigures are of two agreements with two indexers, of one collection.
func healthyFigures() publisher.Figures {
	line := func(name, series string) publisher.IndexerStatus {
		return publisher.IndexerStatus{Identity: envelope.Name(name), Collection: "docs", Series: series, State: "in-force"}
	}
	f := publisher.Figures{Status: publisher.Status{
		Collections: []publisher.CollectionStatus{{Name: "docs", Revision: 100, Pages: 90}},
		Indexers:    []publisher.IndexerStatus{line("spiffe://a.test/i", "a"), line("spiffe://b.test/i", "b")},
	}}
	f.Status.Certificate.NotAfter = envelope.At(start.Add(300 * 24 * time.Hour))
	f.Pulse.Peers = []publisher.PeerFigures{{Indexer: "spiffe://a.test/i", Open: start}, {Indexer: "spiffe://b.test/i", Open: start}}
	f.Pulse.Scans = []publisher.ScanFigures{{Collection: "docs", Good: start}}
	return f
}

// TestHealthFollowsProgress judges figures as they are, and then as they are a
// while later.
func TestHealthFollowsProgress(t *testing.T) {
	backlog := func(n ...uint64) func(*publisher.Figures) {
		return func(f *publisher.Figures) {
			for i := range n {
				f.Status.Indexers[i].Backlog = n[i]
			}
		}
	}
	scanned := func(f *publisher.Figures) { f.Pulse.Scans[0].Good = start.Add(11 * time.Minute) }
	for _, tt := range []struct {
		name  string
		first func(f *publisher.Figures)
		then  func(f *publisher.Figures) // nil: as it was
		after time.Duration
		err   error
		want  []string
		ready bool
	}{
		{"nothing to do is well", nil, nil, 11 * time.Minute, nil, nil, true},
		{"an outbox that empties is well", backlog(50, 50), backlog(40, 40), 11 * time.Minute, nil, nil, true},
		{"one that grows while nothing leaves it", backlog(50, 0), func(f *publisher.Figures) {
			f.Status.Collections[0].Revision = 120
			f.Status.Indexers[0].Backlog = 70
		}, 11 * time.Minute, nil, []string{"outbox_stuck"}, true},
		{"a batch without its receipt", func(f *publisher.Figures) { f.Status.Indexers[0].Pending = true }, nil, 11 * time.Minute, nil, []string{"outbox_stuck"}, true},
		{"all of them", backlog(50, 50), nil, 11 * time.Minute, nil, []string{"outbox_stuck", "outbox_stuck", "all_outboxes_stuck"}, false},
		{"one that a limit of the grant keeps here", func(f *publisher.Figures) {
			f.Status.Indexers[0].Backlog, f.Status.Indexers[0].LimitedUntil = 50, envelope.At(start.Add(time.Hour))
		}, nil, 11 * time.Minute, nil, nil, true},
		{"one of a grant that has ended", func(f *publisher.Figures) { f.Status.Indexers[0].Backlog, f.Status.Indexers[0].State = 50, "expired" }, nil, 11 * time.Minute, nil, nil, true},
		{"no session with one", func(f *publisher.Figures) { f.Pulse.Peers[0].Open = time.Time{} }, nil, 3 * time.Minute, nil, []string{"no_session"}, true},
		{"none with any", func(f *publisher.Figures) { f.Pulse.Peers[0].Open, f.Pulse.Peers[1].Open = time.Time{}, time.Time{} }, nil, 3 * time.Minute, nil,
			[]string{"no_session", "no_session", "no_session_at_all"}, false},
		{"a short time without one", func(f *publisher.Figures) {
			f.Pulse.Peers[0].Open, f.Pulse.Peers[0].Closed = time.Time{}, start.Add(2*time.Minute)
		}, nil, 3 * time.Minute, nil, nil, true},
		{"an alarm", func(f *publisher.Figures) { f.Status.Indexers[0].Alarm = &publisher.Alarm{Reason: "split-view"} }, nil, 0, nil, []string{"alarm"}, false},
		{"a grant that ends", func(f *publisher.Figures) { f.Status.Indexers[0].Alert = true }, nil, 0, nil, []string{"grant_ending"}, true},
		{"pages that are refused", func(f *publisher.Figures) { f.Status.Indexers[0].Refused = &publisher.RefusedStatus{Count: 1} }, nil, 0, nil, []string{"pages_refused"}, true},
		{"a scan that failed", func(f *publisher.Figures) { f.Pulse.Scans[0].Error = "gone" }, nil, 0, nil, []string{"scan_failed"}, true},
		{"no scan for long", func(*publisher.Figures) {}, nil, 26 * time.Minute, nil, []string{"scan_late"}, false},
		{"a clock that is behind", func(f *publisher.Figures) { f.Clock = publisher.ErrClock }, nil, 0, nil, []string{"clock_behind"}, false},
		{"a disk that does not answer is asked nothing more", func(f *publisher.Figures) { f.Disk.Stalled, f.Clock = durable.ErrStalled, publisher.ErrClock }, nil, 0, nil, []string{"disk_stalled"}, false},
		{"a full disk", func(f *publisher.Figures) { f.Disk.Full = durable.ErrFull }, nil, 0, nil, []string{"disk_full"}, false},
		{"a failed store", nil, nil, 0, errors.New("failed"), []string{"store_failed"}, false},
		{"a certificate near its end", func(f *publisher.Figures) { f.Status.Certificate.NotAfter = envelope.At(start.Add(48 * time.Hour)) }, nil, 0, nil, []string{"certificate_ending"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now, f := start, healthyFigures()
			w := &watcher{
				loaded:  func() cli.Loaded { return cli.Loaded{} },
				figures: func() (publisher.Figures, error) { return f, tt.err }, now: func() time.Time { return now }, rescan: 5 * time.Minute, began: start,
				history: new(monitor.History), filled: make(map[string]*monitor.Progress), moved: make(map[string]*monitor.Progress),
			}
			if tt.first != nil {
				tt.first(&f)
			}
			w.look()
			w.report()
			now = now.Add(tt.after)
			if tt.then != nil {
				f = healthyFigures()
				tt.then(&f)
			}
			if tt.after == 11*time.Minute {
				scanned(&f)
			}
			r := w.report()
			var got []string
			for _, x := range r.Reasons {
				got = append(got, x.Code)
			}
			if !slices.Equal(got, tt.want) || r.Ready() != tt.ready {
				t.Errorf("%q, ready: %t; want %q, %t", got, r.Ready(), tt.want, tt.ready)
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
