package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

func TestCommitIsDurableBeforeItReturns(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	defer r.close(t)
	for i := range uint64(20) {
		p := &proposal{n: 3, prepare: func(tx *Tx) error { return tx.Batch().Set(fmt.Appendf(nil, "row%d", i), nil) }}
		r.commit(t, p)
		after := open(t, d.Crash(random(i), 0), nil)
		for _, o := range p.got.Entries {
			if raw, err := after.Released().Entry(o.Sequence); err != nil || !bytes.Equal(raw, o.Raw) {
				t.Errorf("entry %d after a crash: %v", o.Sequence, err)
			}
		}
		if _, err := after.store.Get(fmt.Appendf(nil, "row%d", i)); err != nil {
			t.Errorf("the row of commit %d after a crash: %v", i, err)
		}
		after.close(t)
	}
}

// TestNothingIsReleasedBeforeItsSync holds a commit at each of its syncs in
// turn. The database shows it meanwhile; the log does not.
func TestNothingIsReleasedBeforeItsSync(t *testing.T) {
	for name, file := range map[string]string{"the store's log": ".log", "the high-water mark": markFile(testVkey(t))} {
		d := durabletest.New()
		r := open(t, d, nil)
		r.grow(t, 2, true)
		held, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		d.OnWrite(func(_ int64, op, path string) error {
			if op == durabletest.OpSync && strings.HasSuffix(path, file) {
				once.Do(func() { close(held); <-release })
			}
			return nil
		})
		done := make(chan error)
		go func() { done <- r.Commit(context.Background(), &proposal{n: 1}) }()
		select {
		case <-held:
		case err := <-done:
			t.Fatalf("Commit = %v without a sync of %s", err, name)
		}
		// Pebble applies a batch while its log is being synced.
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if _, err := r.store.Get(entryKey(2)); err == nil {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("the database does not show the entry: %v", err)
			}
		}
		if _, err := r.Released().Entry(2); !errors.Is(err, ErrNotCovered) || r.Released().Tree.Size != 2 {
			t.Errorf("before the sync of %s: released size %d, entry 2: %v", name, r.Released().Tree.Size, err)
		}
		s, err := r.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(entryKey(2)); !errors.Is(err, durable.ErrNotFound) {
			t.Errorf("before the sync of %s a snapshot has the entry's row: %v", name, err)
		}
		s.Close()
		select {
		case err := <-done:
			t.Errorf("Commit = %v before the sync of %s", err, name)
		default:
		}
		close(release)
		if err := <-done; err != nil || r.Released().Tree.Size != 3 {
			t.Errorf("Commit = %v, size %d", err, r.Released().Tree.Size)
		}
		r.close(t)
	}
}

// TestReceiptProofAndCheckpointAreOfOneSize: 64 writers, each commit checked by
// who knows nothing but the keys.
func TestReceiptProofAndCheckpointAreOfOneSize(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := range 4 {
				p := &proposal{n: 1 + (w+i)%3, finish: signReceipt}
				if err := r.Commit(context.Background(), p); err != nil {
					t.Error(err)
					return
				}
				checkCommitted(t, r, p.got)
			}
		})
	}
	wg.Wait()
	if size := r.Released().Tree.Size; size != 64*4*2-1 && size < 400 {
		t.Errorf("%d entries", size)
	}
}

func signReceipt(tx *Tx, c *Committed) error {
	body := Receipt{
		Checkpoint: CheckpointRef{c.Checkpoint.ID, c.Tree.Root, c.Tree.Size}, Indexer: testIndexer,
		Publisher: "spiffe://publisher.example/p", Purposes: []string{"archive"}, Entries: []EntryRef{},
		CollectionRef: testHash("c"), GrantID: testHash("g"), PolicyHash: testHash("p"), ScopeHash: testHash("s"),
	}
	for _, o := range c.Entries {
		body.Entries = append(body.Entries, EntryRef{Decision: Include, Index: o.Sequence, ObjectID: o.ID, Root: emptyRoot()})
	}
	o, err := tx.Sign(envelope.Header{
		Type: envelope.Receipt, Subject: "spiffe://publisher.example/p", Audience: "spiffe://publisher.example/p", Sequence: c.Entries[0].Sequence,
	}, &body)
	if err != nil {
		return err
	}
	return tx.Batch().Set(numberKey("R", c.Entries[0].Sequence), o.Raw)
}

func checkCommitted(t *testing.T, r *rig, c *Committed) {
	t.Helper()
	now := time.Unix(noon, 0)
	var cp Checkpoint
	if _, err := envelope.Open(c.Checkpoint.Raw, &cp, envelope.Expecting(envelope.Checkpoint, testKeys{}, now)); err != nil {
		t.Error(err)
	}
	tree, err := OpenNote(c.Note, testVkey(t))
	if err != nil || tree != c.Tree || cp.TreeSize != tree.Size || cp.Root != envelope.Hash(tree.Root) || c.Checkpoint.Sequence != tree.Size {
		t.Errorf("note %+v, artefact %+v, %v", tree, cp, err)
	}
	raw, err := r.store.Get(numberKey("R", c.Entries[0].Sequence))
	if err != nil {
		t.Error(err)
		return
	}
	var receipt Receipt
	if _, err := envelope.Open(raw, &receipt, envelope.Expecting(envelope.Receipt, testKeys{}, now)); err != nil {
		t.Error(err)
	}
	if receipt.Checkpoint != (CheckpointRef{c.Checkpoint.ID, tree.Root, tree.Size}) {
		t.Errorf("the receipt names %+v", receipt.Checkpoint)
	}
	for i, ref := range receipt.Entries {
		var e Entry
		o, err := envelope.Open(c.Entries[i].Raw, &e, envelope.Expecting(envelope.Entry, testKeys{}, now))
		if err != nil || o.Sequence != ref.Index || o.ID != ref.ObjectID || e.Indexer != testIndexer || e.LogOrigin != testOrigin {
			t.Errorf("entry %+v: %v", e, err)
		}
		path, err := r.Released().InclusionAt(ref.Index, tree.Size)
		if err != nil {
			t.Error(err)
		}
		if err := VerifyInclusion(ref.Index, tree.Size, LeafHash(c.Entries[i].Raw), path, receipt.Checkpoint.Root); err != nil {
			t.Error(err)
		}
	}
}

func TestSetLeavesAreKeptWithTheirEntry(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	_, leaves := setLeaves(5)
	p := &proposal{n: 1, leaves: leaves}
	r.commit(t, p)
	r.grow(t, 1, true)
	got, err := r.Released().SetLeaves(0)
	if err != nil || !bytes.Equal(joinHashes(got), joinHashes(leaves)) {
		t.Errorf("SetLeaves = %x, %v", got, err)
	}
	if got, err := r.Released().SetLeaves(1); err != nil || got != nil {
		t.Errorf("SetLeaves of an entry without any = %x, %v", got, err)
	}
	if _, err := r.Released().SetLeaves(2); !errors.Is(err, ErrNotCovered) {
		t.Errorf("SetLeaves behind the end = %v", err)
	}
	var e Entry
	if err := p.got.Entries[0].DecodeBody(&e); err != nil || e.Objects != SetOf(leaves) {
		t.Errorf("the entry says %+v, %v", e.Objects, err)
	}
}

// TestEntryLimitIsExact pads an entry to the last octet.
func TestEntryLimitIsExact(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	padded := func(n int) *proposal {
		return &proposal{prepare: func(tx *Tx) error {
			body := testEntry(7)
			for range 15 {
				body.Purposes = append(body.Purposes, strings.Repeat("x", 4000))
			}
			body.Purposes = append(body.Purposes, strings.Repeat("y", n))
			return tx.Append(testSubject, body, nil)
		}}
	}
	p := padded(1)
	r.commit(t, p)
	room := MaxEntry - len(p.got.Entries[0].Raw) // within the last purpose
	p = padded(1 + room)
	r.commit(t, p)
	if n := len(p.got.Entries[0].Raw); n != MaxEntry {
		t.Fatalf("the entry has %d octets, want %d: the test does not test", n, MaxEntry)
	}
	if err := r.Commit(context.Background(), padded(1+room+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one octet more: %v", err)
	}
	if size := r.Released().Tree.Size; size != 2 {
		t.Errorf("size %d", size)
	}
}

func TestAClockThatIsBehindSignsNothing(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	issued := func() int64 {
		p := &proposal{n: 1}
		r.commit(t, p)
		if p.got.Entries[0].IssuedAt != p.got.Checkpoint.IssuedAt {
			t.Error("entry and checkpoint differ in time")
		}
		return p.got.Checkpoint.IssuedAt.Unix() - noon
	}
	if got := issued(); got != 0 {
		t.Errorf("issued at noon %+d s", got)
	}
	r.clock.Add(60)
	if got := issued(); got != 60 {
		t.Errorf("issued at noon %+d s, want +60", got)
	}
	r.clock.Add(-120)
	if got := issued(); got != 60 {
		t.Errorf("with the clock 120 s back: issued at noon %+d s, want +60", got)
	}
	r.clock.Add(-1)
	if err := r.Commit(context.Background(), &proposal{n: 1}); !errors.Is(err, ErrClock) {
		t.Errorf("with the clock 121 s back: %v", err)
	}
	// A time that was seen counts even if nothing was signed at it.
	r.clock.Store(noon + 60)
	r.publishNow(t)
	r.clock.Store(noon + 1000)
	r.publishNow(t) // finds nothing new
	r.clock.Store(noon + 870)
	if err := r.Commit(context.Background(), &proposal{n: 1}); !errors.Is(err, ErrClock) {
		t.Errorf("130 s behind the highest time seen: %v", err)
	}
	r.clock.Store(noon + 1000)
	issued()
	r.close(t)
	r, err := tryOpen(d, noon+870, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close(t)
	if err := r.Commit(context.Background(), &proposal{n: 1}); !errors.Is(err, ErrClock) {
		t.Errorf("130 s behind, after a restart: %v", err)
	}
	if err := r.Publish(context.Background()); !errors.Is(err, ErrClock) {
		t.Errorf("Publish 130 s behind: %v", err)
	}
	r.clock.Store(noon + 880)
	if got := issued(); got != 1000 {
		t.Errorf("issued at noon %+d s, want +1000", got)
	}
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	r := open(t, durabletest.New(), nil)
	r.grow(t, 3, true)
	s, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Log.Close(); err != nil {
		t.Errorf("second Close = %v", err)
	}
	if _, err := s.Get(entryKey(0)); err != nil {
		t.Errorf("a snapshot that is open still: %v", err)
	}
	s.Close()
	s.Close()
	if _, err := r.Snapshot(); !errors.Is(err, ErrClosed) {
		t.Errorf("Snapshot after Close = %v", err)
	}
	if err := r.Commit(context.Background(), &proposal{n: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("Commit after Close = %v", err)
	}
	if err := r.Publish(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("Publish after Close = %v", err)
	}
	if r.Released().Tree.Size != 3 || r.Published().Tree.Size != 3 || r.Err() != nil {
		t.Errorf("released %d, published %d, %v", r.Released().Tree.Size, r.Published().Tree.Size, r.Err())
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Released().Entry(0); !errors.Is(err, durable.ErrClosed) {
		t.Errorf("reading from a closed store = %v", err)
	}
}
