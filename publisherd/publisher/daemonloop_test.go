package publisher

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// A testIndexer stands in for an indexer and the sessions with it.
type testIndexer struct {
	*indexerLoop
	mu       sync.Mutex
	rels     []*Relationship
	dials    []time.Time
	pushed   []string // series, in order
	refuse   func(dial int) error
	deliver  func(ctx context.Context, stop <-chan struct{}, series string) error
	says     chan error
	sessions int           // open now
	deleted  int           // by each push
	served   int           // how often a series that waits was looked at
	tries    int           // how often a series was refused for room
	roomy    bool          // there is room for it
	over     chan struct{} // closed when a new session is to take the place of this one
}

func newTestIndexer(name envelope.Name, series ...string) *testIndexer {
	x := &testIndexer{indexerLoop: newIndexerLoop(name, slog.New(slog.DiscardHandler)), says: make(chan error)}
	x.grant(series...)
	x.draw = func(n int64) int64 { return n - 1 }
	x.back.draw = x.draw
	x.indexerLoop.deliver = func(context.Context) (int, error) { return 0, nil }
	x.indexerLoop.series = func() ([]*Relationship, error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		return append([]*Relationship(nil), x.rels...), nil
	}
	x.newest = func(string) *scanned { return new(scanned) }
	x.dial = func(_ context.Context, rels []*Relationship) (conn, error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.dials = append(x.dials, time.Now())
		if x.refuse != nil {
			if err := x.refuse(len(x.dials)); err != nil {
				return nil, err
			}
		}
		x.sessions++
		return testConn{x}, nil
	}
	return x
}

// grant replaces the series in force.
func (x *testIndexer) grant(series ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rels = nil
	for _, s := range series {
		pair := grants.Pair{Grant: &grants.Grant{Object: &envelope.Object{ID: urlHash(s)}}}
		x.rels = append(x.rels, &Relationship{Series: s, Indexer: x.name, Collection: "site", Pair: pair})
	}
}

// waits are the times between attempts.
func (x *testIndexer) waits() []time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []time.Duration
	for i := 1; i < len(x.dials); i++ {
		all = append(all, x.dials[i].Sub(x.dials[i-1]))
	}
	return all
}

func (x *testIndexer) open() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sessions
}

func (x *testIndexer) count(series string) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.pushed {
		if s == series {
			n++
		}
	}
	return n
}

type testConn struct{ x *testIndexer }

func (c testConn) bring(ctx context.Context, stop <-chan struct{}, r *Relationship, _ *scanned) (Result, error) {
	var err error
	if c.x.deliver != nil {
		err = c.x.deliver(ctx, stop, r.Series)
	}
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if err == nil {
		c.x.pushed = append(c.x.pushed, r.Series)
	}
	return Result{Indexer: r.Indexer, Collection: r.Collection, Deleted: c.x.deleted}, err
}

func (c testConn) answerOnly(_ context.Context, _ <-chan struct{}, r *Relationship, _ *scanned) (Result, error) {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.x.served++
	return Result{Indexer: r.Indexer, Collection: r.Collection}, nil
}

func (c testConn) outdated() <-chan struct{} { return c.x.over }

func (c testConn) idle(ctx context.Context) error {
	select {
	case err := <-c.x.says:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c testConn) close() {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.x.sessions--
}

// withLoop runs f in a bubble of time of its own, with the loop of x running.
func withLoop(t *testing.T, x func() *testIndexer, f func(t *testing.T, x *testIndexer)) {
	synctest.Test(t, func(t *testing.T) {
		x := x()
		stop, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- x.run(stop, t.Context()) }()
		f(t, x)
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := x.open(); n != 0 {
			t.Errorf("%d sessions are left open", n)
		}
	})
}

// with makes an indexer with series, and changes what it does.
func with(change func(x *testIndexer), series ...string) func() *testIndexer {
	return func() *testIndexer {
		x := newTestIndexer("spiffe://one.test/indexer", series...)
		change(x)
		return x
	}
}

func one() *testIndexer { return newTestIndexer("spiffe://one.test/indexer", "docs-1") }

func TestAnIndexerThatIsNotUpYetIsRetried(t *testing.T) {
	withLoop(t, with(func(x *testIndexer) {
		x.refuse = func(dial int) error {
			if dial <= 4 {
				return ErrUnavailable
			}
			return nil
		}
	}, "docs-1"), func(t *testing.T, x *testIndexer) {
		time.Sleep(20 * time.Second)
		want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}
		got := x.waits()
		if len(got) != len(want) {
			t.Fatalf("waits %v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("waits %v, want %v", got, want)
			}
		}
		if x.open() != 1 || x.count("docs-1") != 1 {
			t.Errorf("%d sessions, pushed %d times", x.open(), x.count("docs-1"))
		}
	})
}

// TestAnIndexerThatIsDownForADayIsCaughtUpWithin: it is asked at most once every
// five minutes after the first few, and has what waited five minutes after it is
// back at the latest. The log has a line an hour about it.
func TestAnIndexerThatIsDownForADayIsCaughtUpWithin(t *testing.T) {
	lines := new(countingHandler)
	withLoop(t, with(func(x *testIndexer) {
		x.log = slog.New(lines)
		begin := time.Now()
		x.refuse = func(int) error {
			if time.Since(begin) < 24*time.Hour {
				return ErrUnavailable
			}
			return nil
		}
	}, "docs-1"), func(t *testing.T, x *testIndexer) {
		time.Sleep(24*time.Hour - time.Second)
		if n := len(x.waits()); n < 24*12 || n > 24*12+15 {
			t.Errorf("%d attempts in a day", n)
		}
		if x.count("docs-1") != 0 {
			t.Error("something was pushed")
		}
		if n := lines.records.Load(); n < 24 || n > 30 {
			t.Errorf("%d lines are logged in a day", n)
		}
		if f := x.pulse.read(); f.Closed.IsZero() || !f.Next.After(time.Now()) || f.Next.After(time.Now().Add(backoffCap)) {
			t.Errorf("none since %v, and the next attempt is noted for %v", f.Closed, f.Next)
		}
		time.Sleep(backoffCap + 2*time.Second)
		if x.open() != 1 || x.count("docs-1") != 1 {
			t.Errorf("%d sessions, pushed %d times", x.open(), x.count("docs-1"))
		}
	})
}

func TestOnlyAStableSessionResetsTheBackoff(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stable time.Duration
		want   time.Duration // between the last end and the next attempt
	}{
		{"a session that breaks within the minute is one more failure", 59 * time.Second, 8 * time.Second},
		{"one that held for a minute was a success", 61 * time.Second, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withLoop(t, with(func(x *testIndexer) {
				x.refuse = func(dial int) error {
					if dial <= 3 {
						return ErrUnavailable
					}
					return nil
				}
			}, "docs-1"), func(t *testing.T, x *testIndexer) {
				time.Sleep(7*time.Second + tt.stable)
				x.says <- ErrUnavailable
				ended := time.Now()
				time.Sleep(time.Minute)
				x.mu.Lock()
				defer x.mu.Unlock()
				if len(x.dials) != 5 || x.dials[4].Sub(ended) != tt.want {
					t.Errorf("dials %v, want the fifth %s after %v", x.dials, tt.want, ended)
				}
			})
		})
	}
}

func TestTheIndexersHintIsKept(t *testing.T) {
	withLoop(t, with(func(x *testIndexer) {
		x.back.draw = func(int64) int64 { return 0 }
	}, "docs-1"), func(t *testing.T, x *testIndexer) {
		synctest.Wait()
		x.says <- &Draining{40 * time.Second}
		time.Sleep(39 * time.Second)
		synctest.Wait()
		if n := len(x.waits()); n != 0 {
			t.Errorf("%d attempts before the indexer wants one", n)
		}
		nudge(x.wake) // news of files do not shorten it
		time.Sleep(2 * time.Second)
		if n := len(x.waits()); n != 1 {
			t.Errorf("%d attempts afterwards", n)
		}
	})
}

func TestARefusalThatLastsIsRetriedSlowlyAndAtOnceWhenTheConfigurationChanges(t *testing.T) {
	withLoop(t, with(func(x *testIndexer) {
		x.refuse = func(int) error { return &Refused{Reason: grants.ErrUnknownPeer} }
	}, "docs-1"), func(t *testing.T, x *testIndexer) {
		time.Sleep(11 * time.Minute)
		if got := x.waits(); len(got) != 2 || got[0] != backoffCap || got[1] != backoffCap {
			t.Errorf("waits %v", got)
		}
		x.mu.Lock()
		x.refuse = nil
		x.mu.Unlock()
		nudge(x.anew)
		nudge(x.wake)
		time.Sleep(time.Second)
		if x.open() != 1 {
			t.Error("no session after the configuration was changed")
		}
	})
}

func TestAnAlarmStopsTheRelationshipAndNoOther(t *testing.T) {
	withLoop(t, with(func(x *testIndexer) {
		x.deliver = func(_ context.Context, _ <-chan struct{}, series string) error {
			if series == "bad-1" {
				return ErrProtocol
			}
			return nil
		}
	}, "bad-1", "good-1"), func(t *testing.T, x *testIndexer) {
		time.Sleep(time.Hour)
		if x.count("good-1") != 1 || x.open() != 1 || len(x.waits()) != 1 {
			t.Errorf("good-1 was pushed %d times in %d sessions after %v", x.count("good-1"), x.open(), x.waits())
		}
		nudge(x.anew)
		nudge(x.wake)
		time.Sleep(time.Minute)
		if len(x.waits()) != 1 {
			t.Error("it was tried again before the restart")
		}
	})
}

func TestASeriesThatFailsHoldsUpNoOther(t *testing.T) {
	withLoop(t, with(func(x *testIndexer) {
		failures := 0
		x.deliver = func(_ context.Context, _ <-chan struct{}, series string) error {
			if series == "bad-1" && failures < 3 {
				failures++
				return errors.New("the disk")
			}
			return nil
		}
	}, "bad-1", "good-1"), func(t *testing.T, x *testIndexer) {
		go func() { // the daemon's poll
			for range 10 {
				time.Sleep(pollConfig)
				nudge(x.wake)
			}
		}()
		time.Sleep(3 * time.Second)
		if x.count("good-1") != 1 {
			t.Errorf("good-1 was pushed %d times", x.count("good-1"))
		}
		time.Sleep(5 * time.Minute)
		if x.count("bad-1") == 0 {
			t.Error("bad-1 never came back")
		}
	})
}

func TestARoundWaitsForThePushThatBeginsAfterIt(t *testing.T) {
	withLoop(t, one, func(t *testing.T, x *testIndexer) {
		synctest.Wait()
		r := x.ask()
		<-r.done
		if r.err != nil || len(r.results) != 1 || x.count("docs-1") != 2 {
			t.Errorf("%v, %v, pushed %d times", r.results, r.err, x.count("docs-1"))
		}
	})
}

func TestARoundDoesNotWaitForTheBackoff(t *testing.T) {
	withLoop(t, with(func(x *testIndexer) {
		x.refuse = func(int) error { return ErrUnavailable }
	}, "docs-1"), func(t *testing.T, x *testIndexer) {
		time.Sleep(time.Hour)
		start := time.Now()
		r := x.ask()
		<-r.done
		if !errors.Is(r.err, ErrUnavailable) || time.Since(start) > 2*attemptGap {
			t.Errorf("%v after %s", r.err, time.Since(start))
		}
	})
}

func TestTheSessionFollowsTheGrants(t *testing.T) {
	withLoop(t, one, func(t *testing.T, x *testIndexer) {
		time.Sleep(time.Minute)
		x.grant("docs-1", "more-1")
		nudge(x.wake)
		time.Sleep(2 * time.Second)
		if x.count("more-1") != 1 || x.open() != 1 {
			t.Errorf("more-1 was pushed %d times in %d sessions", x.count("more-1"), x.open())
		}
		x.grant()
		nudge(x.wake)
		time.Sleep(2 * time.Second)
		if x.open() != 0 {
			t.Error("a session without a grant")
		}
		r := x.ask()
		<-r.done
		if !errors.Is(r.err, ErrNothingToPush) {
			t.Errorf("a round without a grant: %v", r.err)
		}
	})
}

func TestTheBatchInFlightIsFinishedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := one()
		x.deliver = func(ctx context.Context, stop <-chan struct{}, _ string) error {
			<-stop
			select {
			case <-time.After(5 * time.Second): // the batch's receipt
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		stop, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- x.run(stop, t.Context()) }()
		r := x.ask()
		time.Sleep(time.Minute)
		end()
		start := time.Now()
		if err := <-done; err != nil || time.Since(start) != 5*time.Second || x.count("docs-1") != 1 {
			t.Errorf("%v after %s, %d pushed", err, time.Since(start), x.count("docs-1"))
		}
		<-r.done
		if r.err != nil {
			t.Errorf("the round: %v", r.err)
		}
		if r := x.ask(); !errors.Is(r.err, ErrStopping) {
			t.Errorf("a round after the end: %v", r.err)
		}
	})
}

func TestRevocationsGoBeforeAnythingElse(t *testing.T) {
	withLoop(t, with(func(x *testIndexer) {
		tries := 0
		x.indexerLoop.deliver = func(context.Context) (int, error) {
			tries++
			if tries < 3 {
				return 1, ErrUnavailable
			}
			return 0, nil
		}
	}, "docs-1"), func(t *testing.T, x *testIndexer) {
		time.Sleep(2 * time.Second)
		if n := x.open(); n != 0 {
			t.Errorf("%d sessions while a revocation waits", n)
		}
		time.Sleep(2 * time.Second)
		if x.open() != 1 {
			t.Error("no session after it was delivered")
		}
	})
}
