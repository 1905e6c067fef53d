package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/inorder"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// Remote checks the log that c reads, at the size that it has published now:
// every entry, every tile, both forms of the checkpoint, and some of what the
// public side answers besides. Decision sets are not public. An error means that
// the check could not be completed, remote.ErrUnavailable that the log did not
// answer; findings are in the report.
func Remote(ctx context.Context, c *remote.Client, o Options) (*Report, error) {
	o = o.withDefaults()
	o.VKey = c.VerifierKey()
	r := o.report()
	s := &public{c: c, o: &o, report: r}
	if ok, err := s.load(ctx); err != nil || !ok {
		return r, err
	}
	r.Origin, r.TreeSize, r.Root = s.tree.Origin, s.tree.Size, s.tree.Root
	w := &walk{o: &o, report: r, src: s, tree: s.tree, judge: judge{o: &o, vkey: o.VKey, anyLog: true}}
	if o.Ask > 0 {
		if err := s.ask(ctx, &w.judge); err != nil {
			return r, err
		}
	}
	if err := w.run(ctx); err != nil {
		return r, err
	}
	if l := w.judge.last; l != nil {
		r.Last = &Published{Size: l.size, ID: l.id, Previous: l.previous, IssuedAt: envelope.At(l.issued)}
		if n := w.judge.newest; n != nil && n.Sequence == l.size {
			r.Last.Refreshed = envelope.At(n.IssuedAt)
		}
	}
	r.Newest = w.judge.newest
	return r, s.probe(ctx)
}

// A public is a log as its public side has it.
type public struct {
	c      *remote.Client
	o      *Options
	report *Report
	tree   translog.Tree
	note   []byte
	signed []byte  // the artefact of note, or of a later one
	first  []byte  // the one published first at that size
	before []claim // those published before it, as far as they were asked for
	roots  map[uint64][32]byte
}

func (s *public) found(err error) (Kind, bool) {
	switch {
	case err == nil:
		return "", false
	case errors.Is(err, remote.ErrAbsent):
		return Missing, true
	case errors.Is(err, translog.ErrNote):
		return Checkpoint, true
	case errors.Is(err, remote.ErrMalformed):
		return Unreadable, true
	}
	return "", false
}

// judge makes an error a finding about what lies at path, if it is one.
func (s *public) judge(path string, err error) (ok bool, fatal error) {
	if kind, found := s.found(err); found {
		s.report.addf(kind, 0, path, "%v", err)
		return false, nil
	}
	return err == nil, err
}

// load fetches the checkpoint in both of its forms. A log that publishes between
// the two is asked again.
func (s *public) load(ctx context.Context) (ok bool, err error) {
	for range 5 {
		if s.tree, s.note, err = s.c.Checkpoint(ctx); err != nil {
			return s.judge("/checkpoint", err)
		}
		if s.signed, err = s.c.SignedCheckpoint(ctx); err != nil {
			_, err = s.judge("/signed-checkpoint.json", err)
			break
		}
		if _, body, bad := translog.ParseCheckpoint(s.signed); bad != nil || body.TreeSize == s.tree.Size {
			break
		}
	}
	if err == nil {
		path := fmt.Sprintf("/signed-checkpoint/%d.json", s.tree.Size)
		s.first, err = s.c.SignedCheckpointAt(ctx, s.tree.Size)
		_, err = s.judge(path, err)
	}
	return true, err
}

func (s *public) bundles(ctx context.Context, first, size uint64) iter.Seq2[bundle, error] {
	indexes := func(yield func(uint64, error) bool) {
		for i := first; i*translog.TileWidth < size && yield(i, nil); i++ {
		}
	}
	return func(yield func(bundle, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		inorder.Map(indexes, 6, func(i uint64) (bundle, error) {
			width := translog.Width(size, 0, i)
			entries, err := s.c.Bundle(ctx, i, width)
			if err != nil {
				return bundle{}, err
			}
			b := bundle{index: i, entries: entries}
			b.tile, err = s.tile(ctx, 0, i, width)
			if kind, ok := s.found(err); ok {
				b.bad = append(b.bad, Finding{Kind: kind, Index: i, Key: fmt.Sprintf("tile 0/%d", i), Detail: err.Error()})
				err = nil
			}
			return b, err
		})(func(b bundle, err error) bool {
			more := yield(b, err)
			if !more {
				cancel() // what is being fetched is not wanted any more
			}
			return more
		})
	}
}

func (s *public) tile(ctx context.Context, level int, index uint64, width int) ([]byte, error) {
	return s.c.Tile(ctx, level, index, width)
}

// sizes are those at which the log is asked for proofs.
func (s *public) sizes() []uint64 {
	n := s.tree.Size
	all := []uint64{n / 3, n / 2, n - n/3}
	if n > 0 {
		all = append(all, n-1)
	}
	all = slices.DeleteFunc(all, func(n uint64) bool { return n < s.o.From.Size() }) // no root is known there
	slices.Sort(all)
	return slices.Compact(all)
}

func (s *public) claims(_ context.Context, head translog.Tree) iter.Seq2[claim, error] {
	return func(yield func(claim, error) bool) {
		s.roots = make(map[uint64][32]byte)
		all := s.before
		for _, n := range s.sizes() {
			all = append(all, claim{size: n, probe: func(root [32]byte) { s.roots[n] = root }})
		}
		slices.SortStableFunc(all, func(a, b claim) int { return cmp.Compare(a.size, b.size) })
		for _, c := range all {
			if !yield(c, nil) {
				return
			}
		}
		if s.first != nil {
			path := fmt.Sprintf("/signed-checkpoint/%d.json", head.Size)
			if !yield(claim{key: path, size: head.Size, kind: Checkpoint, raw: s.first, place: first}, nil) {
				return
			}
		}
		if s.signed == nil {
			return
		}
		c := claim{key: "/signed-checkpoint.json", size: head.Size, kind: Checkpoint, raw: s.signed, note: s.note, place: refreshed}
		if _, body, err := translog.ParseCheckpoint(s.signed); err == nil && body.TreeSize > head.Size {
			c.size, c.note, c.place = body.TreeSize, nil, ahead // it was published while it was asked for
		}
		yield(c, nil)
	}
}

// probe asks for some entries alone, and for proofs.
func (s *public) probe(ctx context.Context) error {
	for _, n := range s.sizes() {
		if n < s.tree.Size {
			if err := s.probeEntry(ctx, n); err != nil {
				return err
			}
		}
		root, known := s.roots[n]
		if !known {
			continue // the walk did not come so far
		}
		key := fmt.Sprintf("/proof/consistency from %d to %d", n, s.tree.Size)
		path, err := s.c.Consistency(ctx, n, s.tree.Size)
		ok, err := s.judge(key, err)
		if err != nil {
			return err
		}
		if ok {
			if err := translog.VerifyConsistency(n, s.tree.Size, path, root, s.tree.Root); err != nil {
				s.report.addf(Proof, n, key, "%v", err)
			}
		}
	}
	return nil
}

func (s *public) probeEntry(ctx context.Context, index uint64) error {
	key := fmt.Sprintf("/entry/%d.json", index)
	raw, err := s.c.Entry(ctx, index)
	if ok, err := s.judge(key, err); !ok {
		return err
	}
	proof := fmt.Sprintf("/proof/inclusion of entry %d at size %d", index, s.tree.Size)
	path, err := s.c.Inclusion(ctx, index, s.tree.Size)
	if ok, err := s.judge(proof, err); !ok {
		return err
	}
	if err := translog.VerifyInclusion(index, s.tree.Size, translog.LeafHash(raw), path, s.tree.Root); err != nil {
		s.report.addf(Proof, index, key+" and "+proof, "%v", err)
	}
	return nil
}
