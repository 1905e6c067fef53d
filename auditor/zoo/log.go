package zoo

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Draft is an entry before it is signed.
type Draft struct {
	envelope.Header
	translog.Entry
	Signer *envelope.Signer // in place of the indexer's
}

// A Lie is where a log departs from the honest course; each member may be nil.
type Lie struct {
	Script     func(*Script) // goes on with the course
	Drafts     func([]Draft) []Draft
	Octets     func(index int, raw []byte) []byte // of an entry, after it was signed
	Log        func([][]byte) [][]byte            // the entries, after they were signed
	Publish    func(sizes []uint64) []uint64      // which checkpoints are published
	Checkpoint func(size uint64, h *envelope.Header, c *translog.Checkpoint)
	Previous   func(size uint64, all []*envelope.Object) envelope.Hash
	Refresh    func(h *envelope.Header, c *translog.Checkpoint) // the newest checkpoint
	Note       func(*translog.Tree)
	Serve      func(path string, body []byte) []byte // nil is 404
}

// A Log is one that is served.
type Log struct {
	Indexer *identity.Local
	Entries [][]byte
	Tree    stage.Tree

	t         testing.TB
	levels    [][][32]byte // hashes of each level of tiles
	published map[uint64]*envelope.Object
	newest    *envelope.Object
	note      []byte
	lie       Lie

	bundles []byte // all entries as they are served, if Long has made it
	starts  []int  // of each in it, and the end
}

// New makes the log of an indexer: drafts, checkpoints at some sizes, and the
// newest of them signed again at now.
func New(t testing.TB, indexer *identity.Local, drafts []Draft, sizes []uint64, now time.Time, lie Lie) *Log {
	t.Helper()
	l := &Log{Indexer: indexer, t: t, lie: lie, published: make(map[uint64]*envelope.Object)}
	drafts = slices.Clone(drafts)
	if lie.Drafts != nil {
		drafts = lie.Drafts(drafts)
	}
	l.Entries = signAll(t, indexer, drafts)
	var issued []time.Time
	for i, d := range drafts {
		if lie.Octets != nil {
			l.Entries[i] = lie.Octets(i, l.Entries[i])
		}
		issued = append(issued, d.IssuedAt)
	}
	if lie.Log != nil {
		l.Entries = lie.Log(l.Entries)
	}
	l.grow()
	sizes = slices.Clone(sizes)
	sizes[len(sizes)-1] = uint64(len(l.Entries))
	if lie.Publish != nil {
		sizes = lie.Publish(sizes)
	}
	var all []*envelope.Object
	for _, n := range sizes {
		at := issued[0].Add(-time.Minute)
		if n > 0 {
			at = issued[min(n, uint64(len(issued)))-1]
		}
		previous := envelope.Hash{}
		if len(all) > 0 {
			previous = all[len(all)-1].ID
		}
		if lie.Previous != nil {
			previous = lie.Previous(n, all)
		}
		o := l.checkpoint(n, at, previous, func(h *envelope.Header, c *translog.Checkpoint) {
			if lie.Checkpoint != nil {
				lie.Checkpoint(n, h, c)
			}
		})
		all, l.published[n] = append(all, o), o
		if n != sizes[len(sizes)-1] {
			continue
		}
		l.newest = l.checkpoint(n, now, previous, func(h *envelope.Header, c *translog.Checkpoint) {
			if lie.Refresh != nil {
				lie.Refresh(h, c)
			}
		})
		l.sign(n)
	}
	return l
}

// sign signs the note.
func (l *Log) sign(n uint64) {
	l.t.Helper()
	tree := l.Tree.At(l.Indexer.Card.Log.Origin, n)
	if l.lie.Note != nil {
		l.lie.Note(&tree)
	}
	note, err := translog.SignNote(tree, l.Indexer.LogKey)
	if err != nil {
		l.t.Fatal(err)
	}
	l.note = note
}

// grow makes the tiles over the entries.
func (l *Log) grow() {
	l.Tree, l.levels = nil, nil
	for _, raw := range l.Entries {
		l.Tree = append(l.Tree, translog.LeafHash(raw))
	}
	for hashes := [][32]byte(l.Tree); len(hashes) > 0; {
		l.levels = append(l.levels, hashes)
		var above [][32]byte
		for i := 0; i+translog.TileWidth <= len(hashes); i += translog.TileWidth {
			above = append(above, stage.Tree(hashes[i:]).Root(translog.TileWidth))
		}
		hashes = above
	}
}

func (l *Log) checkpoint(n uint64, at time.Time, previous envelope.Hash, change func(*envelope.Header, *translog.Checkpoint)) *envelope.Object {
	l.t.Helper()
	c := translog.Checkpoint{
		Algorithm: translog.RootAlgorithm, Indexer: l.Indexer.Name(), LogOrigin: l.Indexer.Card.Log.Origin, Profile: translog.Profile,
		PreviousHash: previous, Root: l.Tree.Root(n), TreeSize: n,
	}
	h := envelope.Header{
		Type: envelope.Checkpoint, Authority: l.Indexer.Name().Authority(), Subject: l.Indexer.Name(), Epoch: 1, Sequence: n, IssuedAt: at,
	}
	change(&h, &c)
	o, err := sign(h, &c, l.Indexer.Envelope)
	if err != nil {
		l.t.Fatal(err)
	}
	return o
}

// signAll signs the drafts on all cores: there may be a million.
func signAll(t testing.TB, indexer *identity.Local, drafts []Draft) [][]byte {
	t.Helper()
	raw, errs := make([][]byte, len(drafts)), make([]error, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for w := range errs {
		all.Go(func() {
			for i := w; i < len(drafts) && errs[w] == nil; i += len(errs) {
				d := &drafts[i]
				o, err := sign(d.Header, &d.Entry, cmp.Or(d.Signer, indexer.Envelope))
				if errs[w] = err; err == nil {
					raw[i] = o.Raw
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return raw
}

// sign signs any body, also one that its own type would refuse.
func sign(h envelope.Header, body any, by *envelope.Signer) (*envelope.Object, error) {
	b, err := envelope.Canonical(body)
	if err != nil {
		return nil, err
	}
	o, err := envelope.Sign(h, jsontext.Value(b), by)
	if err != nil {
		return nil, fmt.Errorf("%s %d: %w", h.Type, h.Sequence, err)
	}
	return o, nil
}
