package publisher

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// eventually waits until holds is true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within ten seconds", what)
		}
	}
}

// runDaemon runs d until the function that it returns is called, which looks
// whether anything is left behind.
func runDaemon(t *testing.T, d *Daemon) (stop func()) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		select {
		case err := <-done:
			check(t, err)
		case <-time.After(drainTime):
			t.Fatal("the daemon does not end")
		}
		goleak.VerifyNone(t, before)
	}
}

func TestTheDaemonBringsEachChangeAcrossInOneSession(t *testing.T) {
	x := newFixture(t)
	x.write("one", "words")
	d := NewDaemon(x.p, DaemonOptions{})
	stop := runDaemon(t, d)
	pages := func(n uint64) func() bool { return func() bool { return x.cursor().Pages == n } }
	eventually(t, "the first page", pages(1))
	x.write("two", "words")
	eventually(t, "a new page", pages(2))
	x.write("sub/three", "words")
	eventually(t, "a page in a new folder", pages(3))
	check(t, os.Remove(filepath.Join(x.site, "two.html")))
	eventually(t, "a deletion", pages(2))

	x.write("four", "words")
	results, err := d.Push(t.Context(), PushOptions{})
	check(t, err)
	if len(results) != 1 || results[0].Sent+len(results[0].Receipts) > 2 || !pages(3)() {
		t.Errorf("%+v: want the one page, unless it was sent by then", results)
	}
	if _, err := d.Push(t.Context(), PushOptions{Indexer: "spiffe://no.test/indexer"}); !errors.Is(err, ErrNothingToPush) {
		t.Errorf("a push to nobody: %v", err)
	}
	stop()
	if _, err := d.Push(t.Context(), PushOptions{}); !errors.Is(err, ErrStopping) {
		t.Errorf("a push after the end: %v", err)
	}
	if n := x.receipts(); n != 5 {
		t.Errorf("%d receipts, want one for each change", n)
	}
}

func TestASlowIndexerHoldsUpNoOther(t *testing.T) {
	x := newFixture(t)
	slow := *x.rel
	slow.Indexer = "spiffe://slow.test/indexer"
	good := x.rel.Indexer
	x.write("one", "words")
	d := NewDaemon(x.p, DaemonOptions{})
	l := d.newLoop(slow.Indexer)
	l.series = func() ([]*Relationship, error) { return []*Relationship{&slow}, nil }
	l.dial = func(ctx context.Context, _ []*Relationship) (conn, error) {
		<-ctx.Done() // a network that swallows everything
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx, t.Context()) }()
	stop := runDaemon(t, d)
	eventually(t, "the other's page", func() bool { return x.cursor().Pages == 1 })
	x.write("two", "words")
	results, err := d.Push(t.Context(), PushOptions{Indexer: good})
	check(t, err)
	if len(results) != 1 || results[0].Indexer != good || x.cursor().Pages != 2 {
		t.Errorf("%+v", results)
	}
	stop()
	cancel()
	check(t, <-ended)
}

func TestANewGrantBeginsANewSession(t *testing.T) {
	x := newFixture(t)
	x.write("one", "words")
	d := NewDaemon(x.p, DaemonOptions{})
	open := make(chan []*Relationship, 16)
	dial := d.dial
	d.dial = func(ctx context.Context, rels []*Relationship) (conn, error) {
		c, err := dial(ctx, rels)
		if err == nil {
			open <- rels
		}
		return c, err
	}
	stop := runDaemon(t, d)
	eventually(t, "the first page", func() bool { return x.cursor().Pages == 1 })
	before := (<-open)[0].Pair.Grant.Object.ID
	x.renew(2, "https://example.com/doc/")
	var after envelope.Hash
	eventually(t, "a session under the new grant", func() bool {
		select {
		case rels := <-open:
			after = rels[0].Pair.Grant.Object.ID
		default:
		}
		return !after.IsZero()
	})
	if after == before {
		t.Error("the session began anew under the old grant")
	}
	stop()
}

func TestAFirstGrantIsNoticed(t *testing.T) {
	x := newFixture(t)
	x.write("one", "words")
	grants := filepath.Join(x.p.dir, "grants")
	check(t, os.RemoveAll(grants))
	stop := runDaemon(t, NewDaemon(x.p, DaemonOptions{}))
	time.Sleep(quietTime / 2) // the daemon has looked once, or is about to
	check(t, x.rel.write(x.p.dir))
	eventually(t, "the first page", func() bool { return x.cursor().Pages == 1 })
	stop()
}
