package e2e

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A draft is a signed object taken apart, to be changed and signed again.
type draft[B any] struct {
	head envelope.Header
	body B
}

func draftOf[B any](l *lyingIndexer, raw []byte) draft[B] {
	o, err := envelope.Parse(raw)
	pair.Check(l.t, err)
	d := draft[B]{head: envelope.Header{
		Type: o.Type, Authority: o.Authority, Subject: o.Subject, Audience: o.Audience, Epoch: o.Epoch, Sequence: o.Sequence,
		IssuedAt: o.IssuedAt, NotBefore: o.NotBefore, ExpiresAt: o.ExpiresAt,
	}}
	pair.Check(l.t, o.DecodeBody(&d.body))
	return d
}

// sign signs any body, also one that its own type would refuse.
func (d *draft[B]) sign(l *lyingIndexer, by *envelope.Signer) *envelope.Object {
	b, err := envelope.Canonical(&d.body)
	pair.Check(l.t, err)
	o, err := envelope.Sign(d.head, jsontext.Value(b), by)
	pair.Check(l.t, err)
	return o
}

// A forgery is an answer to a batch that is made anew from an honest one, with
// the indexer's real keys. Everything behind a change is signed and proven as if
// it were true.
type forgery struct {
	l          *lyingIndexer
	entries    []draft[translog.Entry]
	receipt    draft[translog.Receipt]
	checkpoint draft[translog.Checkpoint]
	before     stage.Tree // the log before the entries
	seen       uint64     // the size that the consistency proof begins at
	signer     *envelope.Signer

	// Hooks: on the receipt once it names entries and checkpoint; on the tree of
	// the note; on the answer when all is signed.
	receipted func(*translog.Receipt)
	noted     func(*translog.Tree)
	packed    func(*oiv1.BatchResult)
	tree      stage.Tree // the log with the entries, when they are signed
}

// forged tells the lie that change makes of the answer to a batch.
func forged(change func(*forgery)) func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
	return answered(func(l *lyingIndexer, r *oiv1.BatchResult) {
		c := r.Committed
		f := &forgery{l: l, seen: l.shown, signer: l.local.Envelope}
		for _, raw := range c.Entries {
			f.entries = append(f.entries, draftOf[translog.Entry](l, raw))
		}
		f.receipt = draftOf[translog.Receipt](l, c.Receipt)
		f.checkpoint = draftOf[translog.Checkpoint](l, c.Checkpoint)
		f.before = slices.Clone(l.leaves[:f.entries[0].head.Sequence])
		change(f)
		f.make(r)
	})
}

// make signs everything and puts it into the answer.
func (f *forgery) make(r *oiv1.BatchResult) {
	l, c, tree := f.l, r.Committed, f.before
	c.Entries, c.Inclusion, f.receipt.body.Entries = nil, nil, nil
	for i := range f.entries {
		d := &f.entries[i]
		d.head.Sequence = uint64(len(tree))
		o := d.sign(l, f.signer)
		tree = append(tree, translog.LeafHash(o.Raw))
		c.Entries = append(c.Entries, o.Raw)
		f.receipt.body.Entries = append(f.receipt.body.Entries, translog.EntryRef{
			Count: d.body.Objects.Count, Decision: d.body.Decision, Index: o.Sequence, ObjectID: o.ID, Root: d.body.Objects.Root,
		})
	}
	f.tree = tree
	size := uint64(len(tree))
	at := tree.At(l.local.Card.Log.Origin, size)
	f.checkpoint.head.Sequence, f.checkpoint.body.TreeSize, f.checkpoint.body.Root = size, size, at.Root
	checkpoint := f.checkpoint.sign(l, f.signer)
	f.receipt.head.Sequence = f.entries[0].head.Sequence
	f.receipt.body.Checkpoint = translog.CheckpointRef{ObjectID: checkpoint.ID, Root: at.Root, Size: size}
	if f.receipted != nil {
		f.receipted(&f.receipt.body)
	}
	if f.noted != nil {
		f.noted(&at)
	}
	note, err := translog.SignNote(at, l.local.LogKey)
	pair.Check(l.t, err)
	c.Receipt, c.Checkpoint, c.Note = f.receipt.sign(l, f.signer).Raw, checkpoint.Raw, note
	for _, d := range f.entries {
		c.Inclusion = append(c.Inclusion, &oiv1.Path{Hashes: octets(tree.Inclusion(d.head.Sequence, size))})
	}
	r.Consistency = octets(tree.Consistency(min(f.seen, size), max(f.seen, size)))
	if f.packed != nil {
		f.packed(r)
	}
}

func octets(path [][32]byte) [][]byte {
	var raw [][]byte
	for _, h := range path {
		raw = append(raw, h[:])
	}
	return raw
}

// later moves the time of everything that is signed.
func (f *forgery) later(d time.Duration) {
	for i := range f.entries {
		f.entries[i].head.IssuedAt = f.entries[i].head.IssuedAt.Add(d)
	}
	f.receipt.head.IssuedAt = f.receipt.head.IssuedAt.Add(d)
	f.checkpoint.head.IssuedAt = f.checkpoint.head.IssuedAt.Add(d)
}

// fork is the log as it would be if its first entry had been another.
func (l *lyingIndexer) fork() stage.Tree {
	tree := slices.Clone(l.leaves)
	tree[0][0] ^= 1
	return tree
}

// note is the checkpoint of a tree, by the log's own key.
func (l *lyingIndexer) sign(tree stage.Tree) []byte {
	note, err := translog.SignNote(tree.At(l.local.Card.Log.Origin, uint64(len(tree))), l.local.LogKey)
	pair.Check(l.t, err)
	return note
}

// The lies are told at one kind of frame each.

func at(change func(l *lyingIndexer, f *oiv1.IndexerFrame) []*oiv1.IndexerFrame, kind func(*oiv1.IndexerFrame) bool) func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
	return func(l *lyingIndexer, f *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
		if !kind(f) {
			return []*oiv1.IndexerFrame{f}
		}
		return change(l, f)
	}
}

// changed is a lie that sends the frame with a change.
func changed(change func(l *lyingIndexer, f *oiv1.IndexerFrame)) func(l *lyingIndexer, f *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
	return func(l *lyingIndexer, f *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
		change(l, f)
		return []*oiv1.IndexerFrame{f}
	}
}

func isWelcome(f *oiv1.IndexerFrame) bool   { return f.GetWelcome() != nil }
func isAnnounced(f *oiv1.IndexerFrame) bool { return f.GetAnnounceResult() != nil }
func isAnswer(f *oiv1.IndexerFrame) bool    { return f.GetBatchResult() != nil }
func isProof(f *oiv1.IndexerFrame) bool     { return f.GetProbeAnswer() != nil }

func welcomed(change func(l *lyingIndexer, w *oiv1.Welcome)) func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
	return at(changed(func(l *lyingIndexer, f *oiv1.IndexerFrame) { change(l, f.GetWelcome()) }), isWelcome)
}

func claimed(change func(c *oiv1.CollectionState)) func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
	return at(changed(func(_ *lyingIndexer, f *oiv1.IndexerFrame) { change(f.GetAnnounceResult().Collections[0]) }), isAnnounced)
}

func answered(change func(l *lyingIndexer, r *oiv1.BatchResult)) func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
	return at(changed(func(l *lyingIndexer, f *oiv1.IndexerFrame) { change(l, f.GetBatchResult()) }), isAnswer)
}

func shown(change func(a *oiv1.ProbeAnswer)) func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
	return at(changed(func(_ *lyingIndexer, f *oiv1.IndexerFrame) { change(f.GetProbeAnswer()) }), isProof)
}
