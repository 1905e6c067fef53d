// Package stage sets up a publisher, an indexer and its log in memory, for
// tests: with real keys and cards, an honest course of events, and a Lie for
// every place at which an indexer could depart from it. What it makes honestly
// is accepted (TestAnHonestAnswerIsAccepted, TestVerdicts of package evaluate).
package stage

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Stage is one publisher and one indexer with one grant between them.
type Stage struct {
	Publisher, Indexer *identity.Local
	LeafKey            translog.LeafKey
	R                  [32]byte // opens the relationship's name
	Pair               grants.Pair
	Log                Tree
	Now                time.Time
	JournalEpoch       uint64
	Revision           uint64 // the last one used
}

const collection = "docs"

// earlier is how many entries the log holds at first.
const earlier = 11

// New sets the stage, always the same one for the same seed.
func New(t testing.TB, seed byte) *Stage {
	t.Helper()
	random := rand.NewChaCha8([32]byte{seed})
	s := &Stage{Now: time.Date(2025, 11, 3, 9, 30, 0, 0, time.UTC), JournalEpoch: 77, Revision: 100}
	s.Publisher = must[*identity.Local](t)(identity.Create(t.TempDir(), identity.Options{
		Identity: "spiffe://example.com/publisher", Role: identity.Publisher, Now: s.Now.Add(-48 * time.Hour),
		Origins: []identity.Origin{"https://example.com"}, Rand: random,
	}))
	s.Indexer = must[*identity.Local](t)(identity.Create(t.TempDir(), identity.Options{
		Identity: "spiffe://search.example/indexer", Role: identity.Indexer, Now: s.Now.Add(-48 * time.Hour),
		Endpoint: "search.example:7443", LogURL: "https://log.search.example", LogOrigin: "log.search.example/1", Rand: random,
	}))
	for _, b := range [][]byte{s.LeafKey[:], s.R[:]} {
		if _, err := random.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	s.Pair = s.Grant(t, 1, func(*grants.Draft) {})
	for i := range earlier {
		s.Log = append(s.Log, translog.LeafHash(fmt.Appendf(nil, "earlier entry %d", i)))
	}
	return s
}

// Copy is the same stage, whose log and journal go their own way from here.
func (s *Stage) Copy() *Stage {
	c := *s
	c.Log = slices.Clone(s.Log)
	return &c
}

// Grant issues a grant and its policy, after change.
func (s *Stage) Grant(t testing.TB, sequence uint64, change func(*grants.Draft)) grants.Pair {
	t.Helper()
	d := grants.Draft{
		Stamp:     grants.Stamp{Indexer: s.Indexer.Name(), Epoch: 1, Sequence: sequence, At: s.Now.Add(-24 * time.Hour)},
		Publisher: s.Publisher.Name(), Series: "docs-1", Purposes: grants.Purposes{grants.SearchIndex, grants.SearchSnippet},
		Scope:         must[grants.Scope](t)(grants.PrefixScope("https://example.com/doc/")),
		LeafKeyCommit: s.LeafKey.Commit(), Lifetime: 30 * 24 * time.Hour,
		GrantNonce: grants.Nonce{1, byte(sequence)}, PolicyNonce: grants.Nonce{2, byte(sequence)},
	}
	change(&d)
	pair, _, err := grants.Issue(d, s.Publisher.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Subject is how the log names the relationship.
func (s *Stage) Subject() envelope.Name {
	if s.Pair.Grant.Body.Listing == grants.ListingPublic {
		return s.Publisher.Name()
	}
	return translog.RelationshipName(s.R, s.Publisher.Name())
}

// Origin is the log's.
func (s *Stage) Origin() string { return s.Indexer.Card.Log.Origin }

// Size is the number of entries in the log.
func (s *Stage) Size() uint64 { return uint64(len(s.Log)) }

// Tree is the log's tree of the first n entries.
func (s *Stage) Tree(n uint64) translog.Tree { return s.Log.At(s.Origin(), n) }

// Note is the log's checkpoint note at size n.
func (s *Stage) Note(t testing.TB, n uint64) []byte {
	t.Helper()
	return s.SignNote(t, s.Tree(n))
}

// SignNote signs any tree with the log's key.
func (s *Stage) SignNote(t testing.TB, tree translog.Tree) []byte {
	t.Helper()
	return must[[]byte](t)(translog.SignNote(tree, s.Indexer.LogKey))
}

// Grow appends n entries that have nothing to do with this publisher.
func (s *Stage) Grow(n int) {
	for range n {
		s.Log = append(s.Log, sha256.Sum256(fmt.Appendf(nil, "another entry %d", len(s.Log))))
	}
}

// A Page is one item of a batch, and what the indexer decides about it.
type Page struct {
	Op       translog.Op
	URL      string
	Payload  string
	Decision translog.Decision
}

// Pages is a batch with several pages of each decision.
func Pages() []Page {
	put, gone := translog.OpPut, translog.OpTombstone
	return []Page{
		{put, "https://example.com/doc/a", "page a", translog.Include},
		{put, "https://example.com/doc/b", "page b", translog.Update},
		{gone, "https://example.com/doc/c", "", translog.DeleteAck},
		{put, "https://example.com/doc/d", "page d", translog.Include},
		{put, "https://example.com/doc/e", "page e", translog.Exclude},
		{put, "https://example.com/doc/f", "page f", translog.Include},
		{gone, "https://example.com/doc/g", "", translog.DeleteAck},
		{put, "https://example.com/doc/h", "page h", translog.Update},
		{gone, "https://example.com/doc/i", "", translog.Exclude},
	}
}

// A Batch is pages with their revisions and leaves, and the signed manifest.
type Batch struct {
	Pages         []Page
	From, Through uint64
	Request       uint64 // of an answer to a request
	Leaves        []translog.Leaf
	Manifest      *envelope.Object
	StateAfter    envelope.Hash
	Pair          grants.Pair // under which it is offered
}

// Revision is that of page i.
func (b *Batch) Revision(i int) uint64 { return b.From + 1 + uint64(i) }

// Offer makes a batch of the pages; an empty one moves the cursor by one.
func (s *Stage) Offer(t testing.TB, pages ...Page) *Batch {
	t.Helper()
	b := &Batch{Pages: pages, From: s.Revision, Through: s.Revision + max(1, uint64(len(pages))), Pair: s.Pair}
	s.Revision = b.Through
	var leafHashes [][32]byte
	for i, p := range pages {
		leaf := s.LeafKey.Leaf(p.Op, s.JournalEpoch, b.Revision(i), p.URL, sha256.Sum256([]byte(p.Payload)))
		b.Leaves = append(b.Leaves, leaf)
		leafHashes = append(leafHashes, leaf.Hash())
	}
	b.StateAfter = envelope.TaggedHash("state", fmt.Append(nil, b.Through))
	b.Manifest = sign(t, envelope.Header{
		Type: envelope.BatchManifest, Authority: s.Publisher.Name().Authority(), Subject: s.Publisher.Name(),
		Audience: s.Indexer.Name(), Epoch: 1, Sequence: b.Through, IssuedAt: s.Now,
	}, &translog.Manifest{
		CollectionRef: s.LeafKey.CollectionRef(collection), From: b.From, GrantID: b.Pair.Grant.Object.ID,
		JournalEpoch: s.JournalEpoch, Offered: translog.SetOf(leafHashes), Publisher: s.Publisher.Name(),
		StateAfter: b.StateAfter, StateBefore: envelope.TaggedHash("state", fmt.Append(nil, b.From)), Through: b.Through,
	}, s.Publisher.Envelope)
	return b
}

// OtherLog is a later card of the indexer, which names another log.
func (s *Stage) OtherLog(t testing.TB) *identity.Card {
	t.Helper()
	card := *s.Indexer.Card
	other := *card.Log
	other.Origin = "log.search.example/2"
	other.VKey = must[string](t)(translog.VerifierKey(other.Origin, s.Indexer.LogKey.Public().(ed25519.PublicKey)))
	card.Log = &other
	o := sign(t, envelope.Header{
		Type: envelope.IdentityCard, Authority: card.Identity.Authority(), Subject: card.Identity,
		Epoch: 1, Sequence: 2, IssuedAt: s.Now,
	}, &card, s.Indexer.CardSigner)
	return must[*identity.Card](t)(identity.AuthenticateCard(o.Raw))
}
