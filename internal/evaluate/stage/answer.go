package stage

import (
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Lie is where an indexer departs from the honest course; each member may be
// nil. Everything after the lie is signed and proven as if it were true.
type Lie struct {
	Decided    func([]evaluate.Decided) []evaluate.Decided // how the items are put into sets
	Entry      func(i int, h *envelope.Header, e *translog.Entry)
	Log        func(Tree) Tree // the log before these entries
	Checkpoint func(h *envelope.Header, c *translog.Checkpoint)
	Receipt    func(h *envelope.Header, r *translog.Receipt)
	Note       func(*translog.Tree)
	Answer     func(*evaluate.Answer)
	Signer     *envelope.Signer // in place of the indexer's
}

// header begins an object of the indexer.
func (s *Stage) header(kind envelope.Type, sequence uint64) envelope.Header {
	return envelope.Header{
		Type: kind, Authority: s.Indexer.Name().Authority(), Subject: s.Subject(), Epoch: 1, Sequence: sequence, IssuedAt: s.Now,
	}
}

// entry is the body of an entry under the batch's grant, without its decision.
func (s *Stage) entry(b *Batch) translog.Entry {
	g := b.Pair.Grant
	return translog.Entry{
		CollectionRef: s.LeafKey.CollectionRef(collection), From: b.From, GrantExpiresAt: envelope.At(g.Object.ExpiresAt),
		GrantID: g.Object.ID, Indexer: s.Indexer.Name(), JournalEpoch: s.JournalEpoch, LogOrigin: s.Origin(),
		PolicyHash: b.Pair.Policy.Object.ID, Profile: translog.Profile, Purposes: g.Body.Purposes.Strings(), ScopeHash: g.ScopeHash,
		State: s.LeafKey.StateCommitment(s.JournalEpoch, b.Through, b.StateAfter), Through: b.Through, Request: b.Request,
	}
}

// decided is what the batch's pages say.
func (b *Batch) decided() []evaluate.Decided {
	var all []evaluate.Decided
	for i, p := range b.Pages {
		all = append(all, evaluate.Decided{Op: p.Op, LeafHash: b.Leaves[i].Hash(), Decision: p.Decision})
	}
	return all
}

// sets groups leaf hashes by decision, in the order of entries.
func sets(items []evaluate.Decided) (decisions []translog.Decision, leaves [][][32]byte) {
	for _, d := range []translog.Decision{translog.Include, translog.Update, translog.DeleteAck, translog.Exclude} {
		var set [][32]byte
		for _, item := range items {
			if item.Decision == d {
				set = append(set, item.LeafHash)
			}
		}
		if len(set) > 0 {
			decisions, leaves = append(decisions, d), append(leaves, set)
		}
	}
	return decisions, leaves
}

func statusOf(d translog.Decision) translog.Status {
	switch d {
	case translog.DeleteAck:
		return translog.Removed
	case translog.Exclude:
		return translog.Refused
	}
	return translog.Accepted
}

// Answer appends the batch's entries to the log and answers it, from a
// publisher that last saw the tree of size seen.
func (s *Stage) Answer(t testing.TB, b *Batch, seen uint64, lie Lie) evaluate.Answer {
	t.Helper()
	items := b.decided()
	if lie.Decided != nil {
		items = lie.Decided(slices.Clone(items))
	}
	var drafts []translog.Entry
	decisions, leaves := sets(items)
	for i, d := range decisions {
		e := s.entry(b)
		e.BatchID, e.Decision, e.Status, e.Objects = b.Manifest.ID, d, statusOf(d), translog.SetOf(leaves[i])
		drafts = append(drafts, e)
	}
	if len(drafts) == 0 {
		e := s.entry(b)
		e.BatchID, e.Decision, e.Status, e.Objects = b.Manifest.ID, translog.Update, translog.Reconciled, translog.SetOf(nil)
		drafts = append(drafts, e)
	}
	return s.answer(t, b, drafts, seen, lie)
}

// answer commits the drafts, which are about b, and signs their receipt.
func (s *Stage) answer(t testing.TB, b *Batch, drafts []translog.Entry, seen uint64, lie Lie) evaluate.Answer {
	t.Helper()
	c := s.commit(t, drafts, lie)
	r := translog.Receipt{
		BatchID: drafts[0].BatchID, Checkpoint: c.ref(), CollectionRef: s.LeafKey.CollectionRef(collection), From: b.From,
		GrantID: b.Pair.Grant.Object.ID, Indexer: s.Indexer.Name(), JournalEpoch: s.JournalEpoch,
		PolicyHash: b.Pair.Policy.Object.ID, Publisher: s.Publisher.Name(), Purposes: b.Pair.Grant.Body.Purposes.Strings(),
		ScopeHash: b.Pair.Grant.ScopeHash, Through: b.Through,
	}
	for i, o := range c.entries {
		r.Entries = append(r.Entries, translog.EntryRef{
			Count: drafts[i].Objects.Count, Decision: drafts[i].Decision, Index: o.Sequence, ObjectID: o.ID, Root: drafts[i].Objects.Root,
		})
	}
	h := s.header(envelope.Receipt, c.entries[0].Sequence)
	h.Audience = s.Publisher.Name()
	if lie.Receipt != nil {
		lie.Receipt(&h, &r)
	}
	a := c.answer(t, s, seen)
	a.Receipt = sign(t, h, &r, c.signer).Raw
	if lie.Answer != nil {
		lie.Answer(&a)
	}
	return a
}

// commit is what the indexer signs for any entries.
type commit struct {
	signer     *envelope.Signer
	entries    []*envelope.Object
	checkpoint *envelope.Object
	body       translog.Checkpoint
	tree       translog.Tree
	note       []byte
}

func (s *Stage) commit(t testing.TB, drafts []translog.Entry, lie Lie) *commit {
	t.Helper()
	c := &commit{signer: s.Indexer.Envelope}
	if lie.Signer != nil {
		c.signer = lie.Signer
	}
	if lie.Log != nil {
		s.Log = lie.Log(slices.Clone(s.Log))
	}
	for i := range drafts {
		h := s.header(envelope.Entry, s.Size())
		if lie.Entry != nil {
			lie.Entry(i, &h, &drafts[i])
		}
		o := sign(t, h, &drafts[i], c.signer)
		c.entries, s.Log = append(c.entries, o), append(s.Log, translog.LeafHash(o.Raw))
	}
	c.tree = s.Tree(s.Size())
	c.body = translog.Checkpoint{
		Algorithm: translog.RootAlgorithm, Indexer: s.Indexer.Name(), LogOrigin: s.Origin(), Profile: translog.Profile,
		Root: c.tree.Root, TreeSize: c.tree.Size,
	}
	h := s.header(envelope.Checkpoint, c.tree.Size)
	h.Subject = s.Indexer.Name()
	if lie.Checkpoint != nil {
		lie.Checkpoint(&h, &c.body)
	}
	c.checkpoint = sign(t, h, &c.body, c.signer)
	note := c.tree
	if lie.Note != nil {
		lie.Note(&note)
	}
	c.note = s.SignNote(t, note)
	return c
}

func (c *commit) ref() translog.CheckpointRef {
	return translog.CheckpointRef{ObjectID: c.checkpoint.ID, Root: c.body.Root, Size: c.body.TreeSize}
}

// answer holds all but the receipt.
func (c *commit) answer(t testing.TB, s *Stage, seen uint64) evaluate.Answer {
	t.Helper()
	a := evaluate.Answer{Checkpoint: c.checkpoint.Raw, Note: c.note, Consistency: s.Log.Consistency(seen, c.tree.Size)}
	for _, o := range c.entries {
		a.Entries = append(a.Entries, o.Raw)
		a.Inclusion = append(a.Inclusion, s.Log.Inclusion(min(o.Sequence, c.tree.Size-1), c.tree.Size))
	}
	return a
}

// agreed is what the two sides agreed on by pair.
func (s *Stage) agreed(pair grants.Pair) evaluate.Agreed {
	g := pair.Grant
	return evaluate.Agreed{
		Publisher: s.Publisher.Name(), Indexer: s.Indexer.Name(), Keys: s.Indexer.Card,
		LogVKey: s.Indexer.Card.Log.VKey, LogOrigin: s.Origin(),
		GrantID: g.Object.ID, PolicyHash: pair.Policy.Object.ID, ScopeHash: g.ScopeHash, GrantExpiresAt: g.Object.ExpiresAt,
		Purposes: g.Body.Purposes.Strings(), CollectionRef: s.LeafKey.CollectionRef(collection), Subject: s.Subject(),
	}
}

// Expect is what the publisher knows before the answer to b comes.
func (s *Stage) Expect(b *Batch, seen uint64) evaluate.Expected {
	e := evaluate.Expected{
		Agreed:  s.agreed(b.Pair),
		BatchID: b.Manifest.ID, JournalEpoch: s.JournalEpoch, From: b.From, Through: b.Through, Request: b.Request, Sets: b.decided(),
		StateCommitment:  s.LeafKey.StateCommitment(s.JournalEpoch, b.Through, b.StateAfter),
		ManifestIssuedAt: b.Manifest.IssuedAt, Sent: s.Now, Now: s.Now.Add(2 * time.Second),
	}
	if seen > 0 {
		e.Seen = s.Tree(seen)
	}
	return e
}

// Evidence is about page i of an answered batch, with a note of size n.
func (s *Stage) Evidence(t testing.TB, b *Batch, a evaluate.Answer, i int, n uint64) *evaluate.Evidence {
	t.Helper()
	items := b.decided()
	decisions, leaves := sets(items)
	k := slices.Index(decisions, items[i].Decision)
	place := slices.Index(leaves[k], items[i].LeafHash)
	ev := s.bundle(t, b.Pages[i], b.Revision(i), a.Entries[k], a.Checkpoint, n)
	ev.Grant, ev.Policy = b.Pair.Grant.Object.Raw, b.Pair.Policy.Object.Raw
	ev.Claim = evaluate.ClaimOf(items[i].Decision)
	ev.Manifest, ev.Receipt = b.Manifest.Raw, a.Receipt
	ev.Set = evaluate.SetPlace{Index: uint64(place), Path: translog.Hashes(must[[][32]byte](t)(translog.SetPath(leaves[k], place)))}
	return ev
}

// bundle is what evidence holds whatever its claim.
func (s *Stage) bundle(t testing.TB, p Page, revision uint64, entry, checkpoint []byte, n uint64) *evaluate.Evidence {
	t.Helper()
	e := must[*envelope.Object](t)(envelope.Parse(entry))
	size := must[*envelope.Object](t)(envelope.Parse(checkpoint)).Sequence
	su, sc := s.LeafKey.Salts(s.JournalEpoch, revision, sha256.Sum256([]byte(p.URL)))
	ev := &evaluate.Evidence{
		Checkpoint: checkpoint, Entry: entry, Note: string(s.Note(t, n)), URL: p.URL,
		Consistency: translog.ConsistencyProof{From: size, Hashes: translog.Hashes(s.Log.Consistency(size, n)), To: n},
		Inclusion:   translog.InclusionProof{Hashes: translog.Hashes(s.Log.Inclusion(e.Sequence, size)), Index: e.Sequence, Size: size},
		Leaf:        evaluate.Leaf{Op: p.Op, Revision: revision, SaltURL: su},
	}
	ev.Cards = append(ev.Cards, s.Publisher.Card.Object.Raw, s.Indexer.Card.Object.Raw)
	if p.Op == translog.OpPut {
		ev.Digest, ev.Leaf.SaltContent = sha256.Sum256([]byte(p.Payload)), sc
	}
	if s.Pair.Grant.Body.Listing != grants.ListingPublic {
		ev.R = s.R
	}
	return ev
}
