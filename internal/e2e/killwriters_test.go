package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// writers is how many publishers write at once.
const writers = 64

// A record is every checkpoint that anybody was shown, and every entry that was
// acknowledged, over all lives of the indexer.
type record struct {
	acks atomic.Int64

	// mu guards what follows.
	mu      sync.Mutex
	roots   map[uint64][32]byte // of each size that was shown
	entries map[uint64][]byte   // by index
}

// checkpoint finds two roots of one size at once.
func (r *record) checkpoint(t translog.Tree) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.roots[t.Size]; ok && old != t.Root {
		return violated("the tree of %d entries was shown with the roots %x and %x", t.Size, old, t.Root)
	}
	r.roots[t.Size] = t.Root
	return nil
}

// receipt takes down an acknowledgement, and finds two entries at one index at
// once.
func (r *record) receipt(a *evaluate.Accepted) error {
	if err := r.checkpoint(a.Own); err != nil {
		return err
	}
	r.acks.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, o := range a.Entries {
		ref := a.Body.Entries[i]
		if ref.ObjectID != o.ID || ref.Index != o.Sequence || a.Body.Checkpoint.Size != a.Own.Size {
			return violated("receipt %s is not of its own commit", a.Receipt.ID)
		}
		if old, ok := r.entries[ref.Index]; ok && !bytes.Equal(old, o.Raw) {
			return violated("two entries were acknowledged at index %d", ref.Index)
		}
		r.entries[ref.Index] = o.Raw
	}
	return nil
}

// killWriters lets many publishers write, kills the indexer at random moments,
// rounds times, each after at most so many receipts and a moment, and lets
// everybody finish. Then every checkpoint that was ever
// returned must be consistent with every later one, and every acknowledged
// entry at its index.
func killWriters(t *testing.T, rounds, receipts int) {
	p := newPrograms(t, 1)
	p.bin = buildPrograms(t)
	r := &record{roots: map[uint64][32]byte{}, entries: map[uint64][]byte{}}
	all := p.writers(r)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	writing, stop := context.WithCancel(t.Context())
	defer stop()
	final, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	group, final := errgroup.WithContext(final)
	for _, w := range all {
		group.Go(func() error { return w.run(writing, final) })
	}
	for range rounds {
		p.startIndexerd()
		p.life(final, r, int64(1+random.IntN(receipts)), time.Duration(random.IntN(30))*time.Millisecond)
		p.indexer.Process.Kill()
		p.indexer.Wait()
		if final.Err() != nil {
			break // a violation; Wait tells
		}
	}
	p.startIndexerd()
	stop()
	end := time.AfterFunc(2*time.Minute, giveUp)
	defer end.Stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	p.checkRecord(r)
	t.Logf("%d receipts, %d entries and %d checkpoints over %d kills", r.acks.Load(), len(r.entries), len(r.roots), rounds)
}

// writers makes the publishers, whom the indexer trusts.
func (p *programs) writers(r *record) []*writer {
	p.t.Helper()
	card, err := identity.Load(p.Idx, time.Now())
	pair.Check(p.t, err)
	known, err := publisher.OpenTrust(p.Pub)
	pair.Check(p.t, err)
	trusted, err := identity.OpenTrust(filepath.Join(p.Idx, "trust"), identity.TrustOptions{})
	pair.Check(p.t, err)
	var all []*writer
	for n := range writers {
		all = append(all, newWriter(p.t, p.Pair, [2]*identity.Trust{known, trusted}, card.Card, r, n))
	}
	return all
}

// life lets the indexer work until it has given so many receipts more, and a
// little longer, while the public side is watched.
func (p *programs) life(ctx context.Context, r *record, receipts int64, longer time.Duration) {
	p.t.Helper()
	until := r.acks.Load() + receipts
	for deadline := time.Now().Add(time.Minute); r.acks.Load() < until && ctx.Err() == nil; {
		p.watch(r)
		if time.Now().After(deadline) {
			p.t.Fatalf("%d receipts are wanted, %d were given", until, r.acks.Load())
		}
		time.Sleep(2 * time.Millisecond)
	}
	time.Sleep(longer)
	p.watch(r)
}

// watch takes down the checkpoint that the log serves now.
func (p *programs) watch(r *record) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	b, err := fetch(ctx, p.public+"/checkpoint")
	pair.Check(p.t, err)
	tree, err := translog.OpenNote(b, p.VKey())
	pair.Check(p.t, err)
	pair.Check(p.t, r.checkpoint(tree))
}

// checkRecord asks the log for the proof from each size that was shown to the
// next, and for each entry that was acknowledged.
func (p *programs) checkRecord(r *record) {
	p.t.Helper()
	sizes := make([]uint64, 0, len(r.roots))
	for size := range r.roots {
		sizes = append(sizes, size)
	}
	slices.Sort(sizes)
	last := sizes[len(sizes)-1]
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		b, err := fetch(p.t.Context(), p.public+"/checkpoint")
		pair.Check(p.t, err)
		tree, err := translog.OpenNote(b, p.VKey())
		pair.Check(p.t, err)
		if tree.Size >= last {
			pair.Check(p.t, r.checkpoint(tree))
			break
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("a tree of %d entries was acknowledged, published are %d", last, tree.Size)
		}
	}
	for i, to := range sizes[1:] {
		from := sizes[i]
		b, err := fetch(p.t.Context(), fmt.Sprintf("%s/proof/consistency?from=%d&to=%d", p.public, from, to))
		pair.Check(p.t, err)
		var proof translog.ConsistencyProof
		pair.Check(p.t, json.Unmarshal(b, &proof))
		if err := translog.VerifyConsistency(from, to, translog.Path(proof.Hashes), r.roots[from], r.roots[to]); err != nil {
			p.t.Errorf("the checkpoints of sizes %d and %d contradict one another: %v", from, to, err)
		}
	}
	for index, want := range r.entries {
		got, err := fetch(p.t.Context(), fmt.Sprintf("%s/entry/%d.json", p.public, index))
		if err != nil || !bytes.Equal(got, want) {
			p.t.Errorf("the acknowledged entry %d: %v", index, err)
		}
	}
}
