package publisher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// limit renews the grant with limits.
func (x *fixture) limit(c grants.Constraints) {
	x.t.Helper()
	pair := x.s.Grant(x.t, x.rel.Pair.Grant.Object.Sequence+1, func(d *grants.Draft) { d.Constraints = c })
	x.fake.pairs[pair.Grant.Object.ID] = pair
	x.rel.Pair = pair
	check(x.t, x.rel.write(x.p.dir))
}

// sizeOf is how large the payload of one page is.
func (x *fixture) sizeOf(page string) (size uint64) {
	x.t.Helper()
	col, err := x.p.collection("docs")
	check(x.t, err)
	_, err = x.p.scan(x.t.Context(), col, false, nil)
	check(x.t, err)
	check(x.t, col.journal.changes(x.p.store, 0, 1<<40, func(_ [32]byte, row pageRow) (bool, error) {
		if strings.HasSuffix(row.URL, page+".html") {
			size = uint64(row.Size)
		}
		return true, nil
	}))
	return size
}

func TestAPushStopsAtTheLimitOfTheDay(t *testing.T) {
	x := newFixture(t)
	for i := range 7 {
		x.write(fmt.Sprintf("page-%d", i), "words")
	}
	size := x.sizeOf("page-3")
	x.limit(grants.Constraints{MaxBytesPerDay: 3*size + size/2})
	wait := x.s.Now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(x.s.Now)
	for push := range 2 {
		results, err := x.push()
		var refused *Refused
		if !errors.As(err, &refused) || refused.Reason != grants.ErrLimit || time.Duration(refused.RetryMS)*time.Millisecond != wait {
			t.Fatalf("push %d: %v", push, err)
		}
		if want := []int{3, 0}[push]; results[0].Sent != want {
			t.Errorf("push %d: %d pages were sent, want %d", push, results[0].Sent, want)
		}
		if v := judge(err); !v.exact || v.session || v.alarm || v.hint != wait {
			t.Errorf("judged %+v", v)
		}
	}
	if x.fake.batches != 1 {
		t.Errorf("%d batches came, want one: what the limit refuses is not sent", x.fake.batches)
	}
	status, err := x.p.Status()
	check(t, err)
	if got := status.Indexers[0]; !got.LimitedUntil.Equal(x.s.Now.Add(wait)) || got.Backlog == 0 {
		t.Errorf("the status is %+v", got)
	}
	x.s.Now = x.s.Now.Add(wait)
	if results, err := x.push(); !errors.Is(err, grants.ErrLimit) || results[0].Sent != 3 {
		t.Errorf("on the next day: %+v, %v", results, err)
	}
	x.s.Now = x.s.Now.Add(24 * time.Hour)
	results, err := x.push()
	if err != nil || results[0].Sent != 1 {
		t.Errorf("on the third: %+v, %v", results, err)
	}
	status, err = x.p.Status()
	check(t, err)
	if got := status.Indexers[0]; !got.LimitedUntil.IsZero() || got.Backlog != 0 || got.Pages != 7 {
		t.Errorf("at the end the status is %+v", got)
	}
	x.receipts()
}

func TestAPageLargerThanADayIsLeftOutAlone(t *testing.T) {
	x := newFixture(t)
	x.write("a", "words")
	x.write("b", strings.Repeat("many words ", 200))
	x.write("c", "words")
	x.limit(grants.Constraints{MaxBytesPerDay: 3 * x.sizeOf("a")})
	results, err := x.push()
	if err != nil || results[0].Sent != 2 || len(results[0].Refused) != 1 || results[0].Refused[0].Reason != string(grants.ErrLimit) {
		t.Errorf("pushed %+v, %v", results, err)
	}
}

func TestBatchesAreAsSmallAsTheRateAsks(t *testing.T) {
	x := newFixture(t)
	for i := range 5 {
		x.write(fmt.Sprintf("page-%d", i), "words")
	}
	x.limit(grants.Constraints{MaxFetchPerSecond: 2})
	began := time.Now()
	x.p.clock = func() time.Time { return x.s.Now.Add(time.Since(began)) }
	results, err := x.push()
	if err != nil || results[0].Sent != 5 || x.fake.batches != 3 {
		t.Errorf("pushed %+v in %d batches, %v", results, x.fake.batches, err)
	}
}

// TestAnIndexerThatCountsMoreIsWaitedFor has the indexer refuse what this side
// believes to be within the limits, for a moment and for long.
func TestAnIndexerThatCountsMoreIsWaitedFor(t *testing.T) {
	for _, tt := range []struct {
		name    string
		refused []uint32 // hints in milliseconds, one a batch
		want    error
		batches int
	}{
		{"a moment", []uint32{20, 30}, nil, 3},
		{"hours", []uint32{2 * 3600 * 1000}, grants.ErrLimit, 1},
		{"no time at all: it never fits", []uint32{0}, grants.ErrLimit, 1},
		{"moments without an end", []uint32{1, 1, 1, 1, 1, 1, 1, 1, 1}, grants.ErrLimit, maxPauses + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newFixture(t)
			x.write("page", "words")
			x.limit(grants.Constraints{MaxBytesPerDay: 1 << 20})
			x.fake.limits = tt.refused
			_, err := x.push()
			if !errors.Is(err, tt.want) || x.fake.batches != tt.batches {
				t.Errorf("%v after %d batches", err, x.fake.batches)
			}
			status, err := x.p.Status()
			check(t, err)
			if got := status.Indexers[0].LimitedUntil; (tt.name == "hours") != got.Equal(x.s.Now.Add(2*time.Hour)) {
				t.Errorf("limited until %s", got)
			}
			p, err := agreement{x.p.store, x.rel}.pacing(x.p.store)
			check(t, err)
			if sent := x.receipts() > 0; sent != (p.Used.Octets > 0) {
				t.Errorf("sent %t, and noted are %d octets", sent, p.Used.Octets)
			}
		})
	}
}

// refuseByLimit answers a batch with the next hint.
func (f *fakeIndexer) refuseByLimit(series string, batch envelope.Hash) *oiv1.IndexerFrame {
	hint := f.limits[0]
	f.limits = f.limits[1:]
	return result(&oiv1.BatchResult{Series: series, BatchId: batch[:], Refused: &oiv1.Fault{Reason: string(grants.ErrLimit), Detail: "used up", RetryMs: hint}})
}

// TestASeriesBeyondItsLimitWaitsExactly has one of two series be refused: it is
// taken up again at the moment that was told, by nobody's wish, and the other
// goes on.
func TestASeriesBeyondItsLimitWaitsExactly(t *testing.T) {
	const wait = 7 * time.Hour
	for _, series := range [][]string{{"docs-1", "other-1"}, {"docs-1"}} {
		var limited, again time.Time
		withLoop(t, with(func(x *testIndexer) {
			x.deliver = func(_ context.Context, _ <-chan struct{}, name string) error {
				if name != "docs-1" {
					return nil
				}
				if limited.IsZero() {
					limited = time.Now()
					return &Refused{Reason: grants.ErrLimit, RetryMS: uint32(wait / time.Millisecond)}
				}
				again = time.Now()
				return nil
			}
		}, series...), func(t *testing.T, x *testIndexer) {
			time.Sleep(wait + 5*time.Second)
			synctest.Wait() // the loop's goroutine has written
			if late := again.Sub(limited) - wait; late < 0 || late > 2*time.Second {
				t.Errorf("taken up again after %s, want %s", again.Sub(limited), wait)
			}
			if len(series) == 2 && x.count("other-1") == 0 {
				t.Error("the other series waits as well")
			}
		})
	}
}
