package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// outdatedOnce makes an indexer whose first session is outdated in its first push,
// which ends by err; the others go on for ever.
func outdatedOnce(err error, rounds *[]*round) func() *testIndexer {
	return with(func(x *testIndexer) {
		dial, calls := x.dial, 0
		x.dial = func(ctx context.Context, rels []*Relationship) (conn, error) {
			x.over = make(chan struct{})
			return dial(ctx, rels)
		}
		x.deliver = func(_ context.Context, stop <-chan struct{}, _ string) error {
			if calls++; calls > 1 {
				return nil
			}
			close(x.over)
			<-stop
			return err
		}
		*rounds = append(*rounds, x.ask())
	}, "docs-1")
}

func TestAnOutdatedSessionIsReplacedAndItsRoundGoesOn(t *testing.T) {
	var rounds []*round
	withLoop(t, outdatedOnce(ErrStopping, &rounds), func(t *testing.T, x *testIndexer) {
		time.Sleep(time.Minute)
		r := rounds[0]
		select {
		case <-r.done:
		default:
			t.Fatal("the round is not answered")
		}
		if r.err != nil || len(r.results) != 1 {
			t.Errorf("the round ends with %v, %v", r.results, r.err)
		}
		if waits := x.waits(); len(waits) != 1 || waits[0] != attemptGap || x.count("docs-1") != 1 || x.open() != 1 {
			t.Errorf("waits %v, %d pushes, %d sessions", waits, x.count("docs-1"), x.open())
		}
		close(x.over) // while nothing is pushed
		time.Sleep(attemptGap + time.Millisecond)
		if len(x.waits()) != 2 || x.open() != 1 {
			t.Errorf("waits %v, %d sessions", x.waits(), x.open())
		}
	})
}

func TestAnAlarmIsNoOutdatedSession(t *testing.T) {
	var rounds []*round
	withLoop(t, outdatedOnce(ErrProtocol, &rounds), func(t *testing.T, x *testIndexer) {
		time.Sleep(time.Hour)
		r := rounds[0]
		<-r.done
		if !errors.Is(r.err, ErrProtocol) || len(x.waits()) != 0 {
			t.Errorf("the round ends with %v, waits %v", r.err, x.waits())
		}
	})
}

func TestWhatTwoSessionsDidIsOneResult(t *testing.T) {
	one := Result{Sent: 3, Deleted: 1, Unchanged: 9, WireOut: 100, WireIn: 10, Seconds: 1, Revision: 7, Receipts: []envelope.Hash{{1}}, Refused: []RefusedItem{{"a", "b"}}}
	two := Result{Sent: 2, Deleted: 0, Unchanged: 11, WireOut: 50, WireIn: 5, Seconds: 2, Revision: 8, Receipts: []envelope.Hash{{2}}, TreeSize: 4}
	want := Result{Sent: 5, Deleted: 1, Unchanged: 8, WireOut: 150, WireIn: 15, Seconds: 3, Revision: 8, Receipts: []envelope.Hash{{1}, {2}}, Refused: []RefusedItem{{"a", "b"}}, TreeSize: 4}
	if got := one.plus(two); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// opened is a session of x with its fake indexer.
func (x *fixture) opened() *session {
	x.t.Helper()
	s, err := x.p.dial(x.t.Context(), []*Relationship{x.rel})
	check(x.t, err)
	x.t.Cleanup(s.close)
	return s
}

func TestASessionEndsWithTheTrustInTheIndexer(t *testing.T) {
	x := newFixture(t)
	s := x.opened()
	start := time.Now()
	check(t, x.p.trust.Remove(x.rel.Indexer))
	err := s.idle(t.Context())
	var refused *Refused
	if !errors.As(err, &refused) || refused.Reason != grants.ErrUnknownPeer {
		t.Errorf("the session ends by %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("after %s", took)
	}
	if _, err := x.p.dial(t.Context(), []*Relationship{x.rel}); !errors.As(err, &refused) {
		t.Errorf("the next is refused by %v", err)
	}
}

func TestANewRecordOfTheIndexerOutdatesTheSession(t *testing.T) {
	x := newFixture(t)
	s := x.opened()
	card, endpoint := s.peer.Card.Object.Raw, s.peer.Endpoint
	select {
	case <-s.outdated():
		t.Fatal("outdated from the beginning")
	case <-time.After(2 * lookEvery):
	}
	_, err := x.p.trust.Add(card, identity.AddOptions{Endpoint: "127.0.0.1:1", Now: x.s.Now})
	check(t, err)
	select {
	case <-s.outdated():
	case <-time.After(30 * time.Second):
		t.Fatal("the session is not outdated")
	}
	if s.lost.Load() != nil {
		t.Error("and it is lost")
	}
	_, err = x.p.trust.Add(card, identity.AddOptions{Endpoint: endpoint, Now: x.s.Now})
	check(t, err)
	x.write("a", "words")
	_, err = x.push()
	check(t, err)
}

// TestAPushGoesOnInAnotherSession changes the indexer's record while a batch is
// in flight.
func TestAPushGoesOnInAnotherSession(t *testing.T) {
	x := newFixture(t)
	var lines bytes.Buffer
	x.p.log = slog.New(slog.NewTextHandler(&lines, nil))
	x.fake.items = 1
	const pages = 40
	for i := range pages {
		x.write(fmt.Sprintf("p%d", i), "words")
	}
	type pushed struct {
		results []Result
		err     error
	}
	done := make(chan pushed, 1)
	go func() {
		r, err := x.p.Push(t.Context(), PushOptions{})
		done <- pushed{r, err}
	}()
	eventually(t, "a batch", func() bool { x.fake.mu.Lock(); defer x.fake.mu.Unlock(); return x.fake.batches > 0 })
	x.fake.mu.Lock() // the next batch waits for its answer
	_, port, err := net.SplitHostPort(x.peer().Endpoint)
	check(t, err)
	_, err = x.p.trust.Add(x.peer().Card.Object.Raw, identity.AddOptions{Endpoint: "localhost:" + port, Now: x.s.Now})
	check(t, err)
	time.Sleep(4 * lookEvery)
	x.fake.mu.Unlock()
	got := <-done
	if got.err != nil || len(got.results) != 1 || got.results[0].Sent != pages || len(got.results[0].Receipts) != pages || x.receipts() != pages {
		t.Errorf("pushed %+v, %v", got.results, got.err)
	}
	if n := strings.Count(lines.String(), errAnew.Error()); n != 1 {
		t.Errorf("%d sessions were replaced, want 1:\n%s", n, lines.String())
	}
}

func TestNothingIsDialledWithACertificateThatHasEnded(t *testing.T) {
	x := newFixture(t)
	now := x.p.local.Certificate().Leaf.NotAfter
	x.p.clock = func() time.Time { return now }
	var refused *Refused
	if _, err := x.p.dial(t.Context(), []*Relationship{x.rel}); !errors.As(err, &refused) {
		t.Errorf("dial = %v", err)
	}
}
