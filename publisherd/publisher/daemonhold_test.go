package publisher

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// full is what an indexer says that has no room for a series.
func full() error { return &Refused{Reason: grants.ErrQuota, RetryMS: 5 * 60 * 1000} }

// TestASeriesOverItsQuotaHoldsUpNoOther: the others go on in the same session, it is
// offered again ever more rarely, what the indexer asks of it is answered, and it is
// taken up again within an hour of there being room.
func TestASeriesOverItsQuotaHoldsUpNoOther(t *testing.T) {
	withLoop(t, with(func(x *testIndexer) {
		x.deliver = func(_ context.Context, _ <-chan struct{}, series string) error { return x.overQuota(series) }
	}, "full-1", "good-1"), func(t *testing.T, x *testIndexer) {
		for range 24 * 60 {
			time.Sleep(time.Minute)
			nudge(x.wake)
		}
		synctest.Wait()
		x.mu.Lock()
		tries, served, sessions := x.tries, x.served, len(x.dials)
		x.mu.Unlock()
		if sessions != 1 || x.count("good-1") < 24*60-1 || x.count("full-1") != 0 {
			t.Errorf("in a day good-1 was pushed %d times, and full-1 %d times, in %d sessions", x.count("good-1"), x.count("full-1"), sessions)
		}
		if tries < 24 || tries > 30 {
			t.Errorf("full-1 was offered %d times in a day", tries)
		}
		if served < 1300 {
			t.Errorf("what was asked of full-1 was looked at %d times", served)
		}
		if h := x.pulse.read().Held["full-1"]; h.IsZero() || h.After(time.Now().Add(time.Hour)) {
			t.Errorf("noted as held until %v", h)
		}
		x.mu.Lock()
		x.roomy = true
		x.mu.Unlock()
		time.Sleep(time.Hour + time.Second)
		if x.count("full-1") == 0 || x.open() != 1 || len(x.waits()) != 0 || len(x.pulse.read().Held) != 0 {
			t.Errorf("an hour after there is room full-1 was pushed %d times, after %v; held: %v", x.count("full-1"), x.waits(), x.pulse.read().Held)
		}
	})
}

// overQuota refuses full-1 while there is no room.
func (x *testIndexer) overQuota(series string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if series != "full-1" || x.roomy {
		return nil
	}
	x.tries++
	return full()
}

func TestAPushOfSeveralTellsWhichIsOverItsQuota(t *testing.T) {
	withLoop(t, with(func(x *testIndexer) {
		x.deliver = func(_ context.Context, _ <-chan struct{}, series string) error { return x.overQuota(series) }
	}, "full-1", "good-1"), func(t *testing.T, x *testIndexer) {
		time.Sleep(time.Minute)
		before := x.count("good-1")
		r := x.ask()
		<-r.done
		if !errors.Is(r.err, grants.ErrQuota) || len(r.results) != 2 || x.count("good-1") != before+1 || len(x.waits()) != 0 {
			t.Errorf("%v, %d results, good-1 was pushed %d times", r.err, len(r.results), x.count("good-1"))
		}
	})
}

func TestPagesThatGoMakeRoomAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		free func(x *testIndexer)
	}{
		{"of another series", func(x *testIndexer) { x.deleted = 3 }},
		{"of its own", func(x *testIndexer) {
			less := &scanned{report: ScanReport{Deleted: 1}}
			x.newest = func(string) *scanned { return less }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withLoop(t, with(func(x *testIndexer) {
				x.deliver = func(_ context.Context, _ <-chan struct{}, series string) error { return x.overQuota(series) }
			}, "full-1", "good-1"), func(t *testing.T, x *testIndexer) {
				time.Sleep(time.Minute)
				x.mu.Lock()
				x.roomy = true
				tt.free(x)
				x.mu.Unlock()
				nudge(x.wake)
				time.Sleep(time.Second)
				if x.count("full-1") == 0 {
					t.Error("full-1 was not offered again")
				}
			})
		})
	}
}

// A countingHandler counts what is logged as more than details.
type countingHandler struct{ records atomic.Int64 }

func (h *countingHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (h *countingHandler) Handle(context.Context, slog.Record) error    { h.records.Add(1); return nil }
func (h *countingHandler) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *countingHandler) WithGroup(string) slog.Handler                { return h }
