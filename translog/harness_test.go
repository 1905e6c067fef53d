package translog

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

const (
	testOrigin  = "log.example/2026"
	testIndexer = envelope.Name("spiffe://indexer.example/one")
	testSubject = envelope.Name("urn:uzpif-oi:rel:test")
)

var quiet = slog.New(slog.DiscardHandler)

func testKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(append(make([]byte, ed25519.SeedSize-1), seed))
}

// A rig is a log on a simulated disk, with a clock that stands still until it
// is moved, and that publishes only when it is told to.
type rig struct {
	*Log
	store *durable.Store
	disk  *durabletest.Disk
	clock *atomic.Int64 // Unix seconds
}

// tryOpen opens store and log on d. cfg may change the configuration.
func tryOpen(d *durabletest.Disk, at int64, cfg func(*Config)) (*rig, error) {
	s, err := durable.Open("/data/store", durable.Options{FS: d.FS(), Logger: quiet, CacheBytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	r := &rig{store: s, disk: d, clock: newClock(at)}
	if err := r.reopen(cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return r, nil
}

const noon = 1_800_000_000 // 2027-01-15

func open(t testing.TB, d *durabletest.Disk, cfg func(*Config)) *rig {
	t.Helper()
	r, err := tryOpen(d, noon, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// reopen opens the log in the store that is open.
func (r *rig) reopen(change func(*Config)) error {
	signer, err := envelope.NewSigner(testKey(1))
	if err != nil {
		return err
	}
	c := Config{
		Store: r.store, Dir: "/data/marks", Origin: testOrigin, Indexer: testIndexer,
		Authority: testIndexer.Authority(), Epoch: 3, Signer: signer, NoteKey: testKey(2),
		Now:     func() time.Time { return time.Unix(r.clock.Load(), 999) },
		Publish: time.Hour, Logger: quiet,
	}
	if change != nil {
		change(&c)
	}
	r.Log, err = Open(c)
	return err
}

func (r *rig) close(t testing.TB) {
	t.Helper()
	if err := errors.Join(r.Log.Close(), r.store.Close()); err != nil {
		t.Error(err)
	}
}

func (r *rig) commit(t testing.TB, p Proposal) {
	t.Helper()
	if err := r.Commit(context.Background(), p); err != nil {
		t.Fatal(err)
	}
}

// grow commits n entries, one a commit if single is set.
func (r *rig) grow(t testing.TB, n int, single bool) {
	t.Helper()
	if !single {
		r.commit(t, &proposal{n: n})
		return
	}
	for range n {
		r.commit(t, &proposal{n: 1})
	}
}

func (r *rig) publishNow(t testing.TB) {
	t.Helper()
	if err := r.Publish(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// A proposal appends n entries, and runs what it is given.
type proposal struct {
	n       int
	opaque  [][]byte // appended instead, as they are
	leaves  [][32]byte
	prepare func(*Tx) error
	finish  func(*Tx, *Committed) error
	got     *Committed
}

func (p *proposal) Prepare(tx *Tx) error {
	if p.prepare != nil {
		if err := p.prepare(tx); err != nil {
			return err
		}
	}
	for _, raw := range p.opaque {
		if err := tx.AppendOpaque(raw); err != nil {
			return err
		}
	}
	for range p.n {
		body := testEntry(tx.NextIndex())
		if p.leaves != nil {
			body.Objects = SetOf(p.leaves)
		}
		if err := tx.Append(testSubject, body, p.leaves); err != nil {
			return err
		}
	}
	return nil
}

func (p *proposal) Finish(tx *Tx, c *Committed) error {
	p.got = ownOf(c)
	if p.finish != nil {
		return p.finish(tx, c)
	}
	return nil
}

// ownOf is c with entries of its own.
func ownOf(c *Committed) *Committed {
	own := *c
	own.Entries = make([]*envelope.Object, len(c.Entries))
	for i, o := range c.Entries {
		if o == nil {
			continue
		}
		var err error
		if own.Entries[i], err = envelope.Parse(bytes.Clone(o.Raw)); err != nil {
			panic(err)
		}
	}
	return &own
}

func testHash(parts ...any) envelope.Hash { return sha256.Sum256([]byte(fmt.Sprint(parts...))) }

func testEntry(n uint64) Entry {
	return Entry{
		BatchID: testHash("batch", n), CollectionRef: testHash("c"), Decision: Include,
		From: n, GrantExpiresAt: envelope.At(time.Unix(noon+86400, 0)), GrantID: testHash("g"),
		JournalEpoch: 7, Objects: SetOf(nil), PolicyHash: testHash("p"), Purposes: []string{"search.index"},
		ScopeHash: testHash("s"), State: testHash("state", n), Status: Accepted, Through: n + 1,
	}
}

// testKeys finds the key that the log's objects are signed by.
type testKeys struct{}

func (testKeys) LookupKey(id envelope.Hash) (envelope.KeyRecord, bool) {
	k, err := envelope.NewPublicKey(testKey(1).Public().(ed25519.PublicKey))
	return envelope.KeyRecord{
		Key: k, Identity: testIndexer, Authority: testIndexer.Authority(), Use: envelope.UseEnvelope, FirstEpoch: 3, LastEpoch: 3,
	}, err == nil && k.ID() == id
}

func testVkey(t testing.TB) string {
	t.Helper()
	vkey, err := VerifierKey(testOrigin, testKey(2).Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return vkey
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

func newClock(at int64) *atomic.Int64 {
	c := new(atomic.Int64)
	c.Store(at)
	return c
}

func newTime(unix int64) time.Time { return time.Unix(unix, 0).UTC() }
