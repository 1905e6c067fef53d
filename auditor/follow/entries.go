package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/inorder"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// Bounds of the verification of entries.
const (
	batchSize = 64      // entries that one goroutine verifies at a time, of at most 64 KiB each
	saveEvery = 1 << 14 // entries after which the state is written
)

// A batch is entries that were found under the root.
type batch struct {
	entries []remote.Entry
	objects []*envelope.Object // of those in front of the bad one
	bodies  []*translog.Entry
	bad     error // why the entry behind the last of objects must not be there
	failed  error // why no entry comes behind this batch
}

// verifyEntries verifies those that are new under the tree that was seen. What
// was verified is kept, also if an error ends it.
func (f *follower) verifyEntries(ctx context.Context, r *Report) error {
	s := f.state
	var failed error
	for b, err := range inorder.Map(f.batches(ctx, s.Verified, s.seen), runtime.GOMAXPROCS(0), func(b *batch) (*batch, error) { return f.look(b), nil }) {
		if failed = err; failed == nil {
			failed = f.take(ctx, b, r)
		}
		if failed == nil && s.Verified < s.seen.Size && s.Verified/saveEvery != (s.Verified-uint64(len(b.entries)))/saveEvery {
			if err := f.save(); err != nil {
				return err
			}
		}
		if failed != nil {
			break
		}
	}
	if failed == nil && s.edge.size() == s.seen.Size {
		root, err := s.edge.root()
		if err != nil {
			return err
		}
		if root != s.seen.Root {
			// Each was under a root that the log proved to go on into this one. None
			// of them counts.
			a := f.alert(Inconsistent, s.seen.Size, "the %d entries that were verified have the root %x, the log signed %x", s.seen.Size, root, s.seen.Root)
			f.state = nil
			return errors.Join(a, f.load())
		}
		s.Note, s.note, s.Signed = s.Seen, s.seen, s.Issued
	}
	if err := f.save(); err != nil {
		return errors.Join(failed, err)
	}
	return failed
}

// batches cuts the entries into batches, and does not lose those in front of an
// error.
func (f *follower) batches(ctx context.Context, from uint64, tree translog.Tree) iter.Seq2[*batch, error] {
	return func(yield func(*batch, error) bool) {
		b := new(batch)
		for e, err := range f.http.Entries(ctx, from, tree.Size, tree) {
			if err != nil {
				b.failed = err
				break
			}
			if b.entries = append(b.entries, e); len(b.entries) == batchSize {
				if !yield(b, nil) {
					return
				}
				b = new(batch)
			}
		}
		if len(b.entries) > 0 || b.failed != nil {
			yield(b, nil)
		}
	}
}

// look verifies what can be told of each entry by itself.
func (f *follower) look(b *batch) *batch {
	f.slots <- struct{}{}
	defer func() { <-f.slots }()
	for _, e := range b.entries {
		o, body, err := f.open(e)
		if err != nil {
			b.bad = err
			break
		}
		b.objects, b.bodies = append(b.objects, o), append(b.bodies, body)
	}
	return b
}

// open verifies one entry.
func (f *follower) open(e remote.Entry) (*envelope.Object, *translog.Entry, error) {
	body := new(translog.Entry)
	o, err := envelope.Authenticate(e.Raw, body, envelope.Verifier{Keys: f.log.Card, Type: envelope.Entry, Threshold: 1})
	switch {
	case err != nil:
		return nil, nil, err
	case o.Sequence != e.Index:
		return nil, nil, fmt.Errorf("it says that it is entry %d", o.Sequence)
	case body.LogOrigin != f.origin():
		return nil, nil, fmt.Errorf("it is of the log %.80q", body.LogOrigin)
	case body.Indexer != f.log.Card.Identity:
		return nil, nil, fmt.Errorf("it is of the indexer %.80q", string(body.Indexer))
	}
	return o, body, nil
}

// take adds a batch to what was verified, up to the first entry that must not be
// there.
func (f *follower) take(ctx context.Context, b *batch, r *Report) error {
	s := f.state
	for i, o := range b.objects {
		at := envelope.At(o.IssuedAt)
		if at.Before(s.LastTime.Time) {
			return f.blame(ctx, b.entries[i], fmt.Errorf("it was issued at %s, and the entry before it at %s", at, s.LastTime))
		}
		if err := f.judgeEntry(b.entries[i].Raw, o, b.bodies[i]); err != nil {
			return err
		}
		if err := s.edge.add(translog.LeafHash(b.entries[i].Raw)); err != nil {
			return err
		}
		s.LastTime, s.Verified = at, s.edge.size()
		r.Checked++
		if f.log.Visit != nil {
			f.log.Visit(b.entries[i].Index, o, b.bodies[i])
		}
	}
	switch {
	case b.bad != nil:
		return f.blame(ctx, b.entries[len(b.objects)], b.bad)
	case refused(b.failed):
		return f.alert(Withheld, s.Verified, "of the tree of %d entries, entry %d and those behind it: %v", s.seen.Size, s.Verified, b.failed)
	}
	return b.failed
}

// blame makes an alert of an entry that must not be there, with the proof that it
// is in the tree, if the log gives it.
func (f *follower) blame(ctx context.Context, e remote.Entry, why error) error {
	s := f.state
	a := f.alert(BadEntry, e.Index, "entry %d: %v", e.Index, why)
	a.files["entry.json"], a.proven = e.Raw, true
	path, err := f.http.Inclusion(ctx, e.Index, s.seen.Size)
	if err != nil || translog.VerifyInclusion(e.Index, s.seen.Size, translog.LeafHash(e.Raw), path, s.seen.Root) != nil {
		return a
	}
	p := translog.InclusionProof{Hashes: translog.Hashes(path), Index: e.Index, Size: s.seen.Size}
	if raw, err := envelope.Canonical(&p); err == nil {
		a.files["proof.json"] = raw
	}
	return a
}
