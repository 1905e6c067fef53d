package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func TestOnlyChangesAreSent(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 30)
	if r := p.Push(); r.Sent != 30 || p.Pages() != 30 {
		t.Fatalf("first push: %+v", r)
	}
	if r := p.Push(); r.Sent != 0 || len(r.Receipts) != 0 || r.Unchanged != 30 {
		t.Errorf("nothing changed: %+v", r)
	}
	p.Write(3, "second")
	pair.Check(t, os.Remove(p.Page(4)))
	if r := p.Push(); r.Sent != 1 || r.Deleted != 1 || p.Pages() != 29 {
		t.Errorf("an edit and a deletion: %+v", r)
	}
	p.Write(3, "first")
	if r := p.Push(); r.Sent != 1 || r.Revision != 33 {
		t.Errorf("back to the first words: %+v", r)
	}
	p.ReceiptsHold(3)
}

func TestAPublisherThatLostItsStoreIsReconciled(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 40)
	p.Push()
	pair.Check(t, os.RemoveAll(filepath.Join(p.Pub, "store")))
	p.Write(1, "second")
	pair.Check(t, os.Remove(p.Page(2)))
	p.Write(40, "new")
	r := p.Push()
	if r.Sent != 2 || r.Deleted != 1 || p.Pages() != 40 {
		t.Errorf("sent %d, deleted %d, held %d: %+v", r.Sent, r.Deleted, p.Pages(), r)
	}
	if r := p.Push(); r.Sent != 0 || r.Deleted != 0 || len(r.Receipts) != 0 {
		t.Errorf("after the reconciliation: %+v", r)
	}
	p.ReceiptsHold(1)
}

func TestALostStoreWithNothingChangedSendsNoPage(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 20)
	p.Push()
	pair.Check(t, os.RemoveAll(filepath.Join(p.Pub, "store")))
	if r := p.Push(); r.Sent != 0 || r.Deleted != 0 || len(r.Receipts) != 1 {
		t.Errorf("reconciliation: %+v", r)
	}
	if r := p.Push(); len(r.Receipts) != 0 {
		t.Errorf("afterwards: %+v", r)
	}
	p.ReceiptsHold(1)
}

func TestARestoredPublisherIsReconciled(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 25)
	p.Push()
	kept := filepath.Join(t.TempDir(), "store")
	pair.CopyDir(t, filepath.Join(p.Pub, "store"), kept)
	p.Write(5, "second")
	pair.Check(t, os.Remove(p.Page(6)))
	p.Push()
	pair.CopyDir(t, kept, filepath.Join(p.Pub, "store"))
	p.Write(7, "third")
	r := p.Push()
	if r.Sent != 1 || r.Deleted != 0 || p.Pages() != 24 {
		t.Errorf("sent %d, deleted %d, held %d", r.Sent, r.Deleted, p.Pages())
	}
	if r := p.Push(); len(r.Receipts) != 0 {
		t.Errorf("afterwards: %+v", r)
	}
}

// TestARestoredPublisherTakesAnAcknowledgement: it revokes what its store, of before,
// does not know the place of any more.
func TestARestoredPublisherTakesAnAcknowledgement(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		restore  func(t *testing.T, p *pair.Pair, kept string)
		unplaced bool
	}{
		"nothing was put back": {func(*testing.T, *pair.Pair, string) {}, false},
		"an older store": {func(t *testing.T, p *pair.Pair, kept string) {
			pair.CopyDir(t, filepath.Join(kept, "store"), filepath.Join(p.Pub, "store"))
		}, true},
		"the store was lost": {func(t *testing.T, p *pair.Pair, _ string) {
			pair.Check(t, os.RemoveAll(filepath.Join(p.Pub, "store")))
		}, true},
		"a backup": {func(t *testing.T, p *pair.Pair, kept string) {
			pair.CopyDir(t, kept, p.Pub)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pair.New(t, 10)
			p.Push()
			kept := filepath.Join(t.TempDir(), "kept")
			pub, err := publisher.Open(publisher.Config{Dir: p.Pub})
			pair.Check(t, err)
			_, err = pub.Backup(kept, "test")
			pair.Check(t, errors.Join(err, pub.Close()))
			p.Write(5, "second")
			p.Push()
			tt.restore(t, p, kept)
			rels, err := publisher.Relationships(p.Pub)
			pair.Check(t, err)
			_, err = publisher.Revoke(p.Pub, publisher.RevokeRequest{Grant: rels[0].Series, Disposition: grants.DispositionDelete}, time.Now())
			pair.Check(t, err)
			for pending, end := true, time.Now().Add(time.Minute); pending; {
				if time.Now().After(end) {
					t.Fatal("nothing is settled after a minute")
				}
				if _, err := p.TryPush(); err != nil && !errors.Is(err, publisher.ErrNothingToPush) {
					t.Fatal(err)
				}
				all, err := publisher.Revocations(p.Pub)
				pair.Check(t, err)
				st := all[0].Status()
				if pending = !all[0].Settled() && st.State == "deleting"; pending {
					continue
				}
				if st.State != "done" || len(st.Acknowledgements) != 2 {
					t.Errorf("%+v", st)
				}
				// The deletion is where the stop was, which is known by then.
				if got := st.Acknowledgements[0].Unplaced; got != tt.unplaced || st.Acknowledgements[1].Unplaced {
					t.Errorf("unplaced: %v, want %v; %+v", got, tt.unplaced, st)
				}
			}
		})
	}
}

func TestARestoredIndexerFolderFreezes(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 10)
	p.Push()
	p.StopIndexer()
	kept := filepath.Join(t.TempDir(), "idx")
	pair.CopyDir(t, p.Idx, kept)
	p.StartIndexer()
	p.Write(1, "second")
	p.Push()
	p.StopIndexer()
	pair.CopyDir(t, kept, p.Idx)
	p.StartIndexer()
	if _, err := p.TryPush(); err == nil {
		t.Fatal("a push to an indexer that forgot an entry went through")
	}
	if err := p.X.Wait(t.Context()); !errors.Is(err, indexer.ErrFrozen) {
		t.Errorf("Wait = %v", err)
	}
	p.StopIndexer()
	if err := p.TryIndexer(); !errors.Is(err, indexer.ErrFrozen) {
		t.Errorf("Open = %v", err)
	}
}

func TestARestoredIndexerStoreIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 10)
	p.Push()
	p.StopIndexer()
	kept := filepath.Join(t.TempDir(), "store")
	pair.CopyDir(t, filepath.Join(p.Idx, "store"), kept)
	p.StartIndexer()
	p.Write(1, "second")
	p.Push()
	p.StopIndexer()
	pair.CopyDir(t, kept, filepath.Join(p.Idx, "store"))
	err := p.TryIndexer()
	if !errors.Is(err, translog.ErrRollback) || !strings.Contains(err.Error(), "Put the newest copy") {
		t.Errorf("Open = %v", err)
	}
}

func TestAnIndexerWithoutItsLogIsNotBelieved(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 10)
	p.Push()
	p.StopIndexer()
	marks, err := filepath.Glob(filepath.Join(p.Idx, "high-water-*"))
	pair.Check(t, err)
	for _, lost := range append(marks, filepath.Join(p.Idx, "store")) {
		pair.Check(t, os.RemoveAll(lost))
	}
	if err := p.TryIndexer(); err != nil {
		t.Fatalf("an empty store: %v", err)
	}
	t.Cleanup(p.StopIndexer)
	_, err = p.TryPush()
	var refused *publisher.Refused
	if !errors.As(err, &refused) && !errors.Is(err, publisher.ErrProtocol) && !errors.Is(err, publisher.ErrUnavailable) {
		t.Errorf("push = %v", err)
	}
}

func TestARefusedSeriesDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 14)
	rels, err := publisher.Relationships(p.Pub)
	pair.Check(t, err)
	p.Push()
	// The second collection is of an origin that the indexer's operator did not
	// name; the first goes on.
	other := p.Site + "-other"
	pair.CopyDir(t, p.Site, other)
	pair.Check(t, publisher.AddSource(p.Pub, publisher.Source{Name: "another", Kind: "site", Location: other, BaseURL: "https://foreign.test/"}))
	scope, err := grants.PrefixScope("https://foreign.test/")
	pair.Check(t, err)
	_, _, err = publisher.IssueGrant(p.Pub, publisher.GrantRequest{
		Indexer: pair.IndexerName, Source: "another", Scope: scope, Purposes: grants.Purposes{grants.SearchIndex}, Mode: grants.ModePush,
	}, time.Now())
	pair.Check(t, err)
	p.Write(2, "second")
	pub, err := publisher.Open(publisher.Config{Dir: p.Pub})
	pair.Check(t, err)
	defer pub.Close()
	results, err := pub.Push(t.Context(), publisher.PushOptions{})
	if !errors.Is(err, grants.ErrOrigin) {
		t.Errorf("Push = %v", err)
	}
	for _, r := range results {
		if r.Collection == rels[0].Collection && r.Sent != 1 {
			t.Errorf("the admitted series: %+v", r)
		}
	}
	if len(results) != 2 {
		t.Errorf("%d results", len(results))
	}
}
