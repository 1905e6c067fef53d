package fsck

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

const (
	testOrigin  = "log.example/2026"
	testIndexer = envelope.Name("spiffe://indexer.example/one")
	noon        = 1_800_000_000 // 2027-01-15
)

func testKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(append(make([]byte, ed25519.SeedSize-1), seed))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
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

// A rig is a log in a store on a disk in memory.
type rig struct {
	t     testing.TB
	disk  *durabletest.Disk
	store *durable.Store
	log   *translog.Log
	now   int64
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, disk: durabletest.New(), now: noon}
	var err error
	r.store, err = durable.Open("/data/store", durable.Options{FS: r.disk.FS(), Logger: slog.New(slog.DiscardHandler), CacheBytes: 1 << 20})
	check(t, err)
	r.log, err = translog.Open(r.config())
	check(t, err)
	return r
}

func (r *rig) config() translog.Config {
	signer, err := envelope.NewSigner(testKey(1))
	check(r.t, err)
	return translog.Config{
		Store: r.store, Dir: "/data", Origin: testOrigin, Indexer: testIndexer, Authority: testIndexer.Authority(), Epoch: 3,
		Signer: signer, NoteKey: testKey(2), Now: func() time.Time { return time.Unix(r.now, 0) },
		Publish: time.Hour, Logger: slog.New(slog.DiscardHandler),
	}
}

func (r *rig) close() {
	r.t.Helper()
	check(r.t, errors.Join(r.log.Close(), r.store.Close()))
}

// grow commits n entries, each with a decision set of one to three pages.
func (r *rig) grow(n int) {
	r.t.Helper()
	check(r.t, r.log.Commit(context.Background(), grower(n)))
}

// publish signs a checkpoint for everybody.
func (r *rig) publish() {
	r.t.Helper()
	r.now++
	check(r.t, r.log.Publish(context.Background()))
}

type grower int

func (g grower) Prepare(tx *translog.Tx) error {
	for range g {
		n := tx.NextIndex()
		leaves := make([][32]byte, n%3+1)
		for i := range leaves {
			leaves[i] = sha256.Sum256(fmt.Appendf(nil, "leaf %d of %d", i, n))
		}
		if err := tx.Append("urn:uzpif-oi:rel:test", testEntry(n, translog.SetOf(leaves)), leaves); err != nil {
			return err
		}
	}
	return nil
}

func (grower) Finish(*translog.Tx, *translog.Committed) error { return nil }

func testEntry(n uint64, set translog.Set) translog.Entry {
	hash := func(what string) envelope.Hash { return sha256.Sum256([]byte(what)) }
	return translog.Entry{
		BatchID: hash(fmt.Sprint("batch", n)), CollectionRef: hash("c"), Decision: translog.Include,
		From: n, GrantExpiresAt: envelope.At(time.Unix(noon+86400, 0)), GrantID: hash("g"), JournalEpoch: 7,
		Objects: set, PolicyHash: hash("p"), Purposes: []string{"search.index"}, ScopeHash: hash("s"),
		State: hash(fmt.Sprint("state", n)), Status: translog.Accepted, Through: n + 1,
	}
}

func testVkey(t testing.TB) string {
	t.Helper()
	vkey, err := translog.VerifierKey(testOrigin, testKey(2).Public().(ed25519.PublicKey))
	check(t, err)
	return vkey
}

// options checks everything. The mark is read before any row is.
func (r *rig) options() Options {
	r.t.Helper()
	o := Options{VKey: testVkey(r.t), Keys: testKeys{}, Signatures: true, Indexer: testIndexer, MarkRequired: true}
	mark, ok, err := translog.ReadMark(r.disk.FS(), "/data", testOrigin, o.VKey)
	check(r.t, err)
	if ok {
		o.Mark = &mark
	}
	return o
}

// steps make a log of 600 entries, with two full tiles.
func steps() []int { return []int{1, 2, 252, 1, 1, 200, 55, 80, 8} }

// sample is a log that was committed and published in these steps.
func sample(t testing.TB, steps ...int) (rows table, o Options) {
	t.Helper()
	r := newRig(t)
	defer r.close()
	for _, n := range steps {
		r.grow(n)
		r.publish()
	}
	o = r.options()
	o.Limit = 1 << 20
	return tableOf(t, r.store), o
}

// A table is the rows of a store in memory, ascending, so that they can be
// changed at no cost. It is a durable.Reader.
type table []durable.Row

func tableOf(t testing.TB, s durable.Reader) (rows table) {
	t.Helper()
	for row, err := range s.Scan([]byte{'L'}, []byte{'L' + 1}) {
		check(t, err)
		rows = append(rows, durable.Row{Key: bytes.Clone(row.Key), Value: bytes.Clone(row.Value)})
	}
	return rows
}

func (t table) octets() (n int) {
	for _, row := range t {
		n += len(row.Value)
	}
	return n
}

func (t table) at(key []byte) int {
	return sort.Search(len(t), func(i int) bool { return bytes.Compare(t[i].Key, key) >= 0 })
}

func (t table) Get(key []byte) ([]byte, error) {
	if i := t.at(key); i < len(t) && bytes.Equal(t[i].Key, key) {
		return append([]byte{}, t[i].Value...), nil
	}
	return nil, durable.ErrNotFound
}

func (t table) Scan(lo, hi []byte) iter.Seq2[durable.Row, error] {
	return func(yield func(durable.Row, error) bool) {
		for i := t.at(lo); i < len(t) && (hi == nil || bytes.Compare(t[i].Key, hi) < 0) && yield(t[i], nil); i++ {
		}
	}
}

func (t table) ScanReverse(lo, hi []byte) iter.Seq2[durable.Row, error] {
	return func(yield func(durable.Row, error) bool) {
		for i := t.at(hi) - 1; i >= t.at(lo) && yield(t[i], nil); i-- {
		}
	}
}

// with is a copy in which a row has another value, or is new, or with a nil
// value is gone.
func (t table) with(key, value []byte) table {
	c := slices.Clone(t)
	i := c.at(key)
	there := i < len(c) && bytes.Equal(c[i].Key, key)
	switch {
	case there && value == nil:
		return slices.Delete(c, i, i+1)
	case there:
		c[i].Value = value
		return c
	case value == nil:
		return c
	}
	return slices.Insert(c, i, durable.Row{Key: key, Value: value})
}

// flipped is value with one bit of one octet changed.
func flipped(value []byte, at int) []byte {
	c := bytes.Clone(value)
	c[at] ^= 1 << (at % 8)
	return c
}

func run(t testing.TB, rows durable.Reader, o Options) *Report {
	t.Helper()
	r, err := Store(t.Context(), rows, o)
	check(t, err)
	return r
}
