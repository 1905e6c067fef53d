package fsck

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Store checks every log in a store: the one that is alive, whose verifier key
// is o.VKey, and those that ended before it. rows must not change meanwhile: a
// snapshot, or a store that nobody writes to. An error means that the check
// could not be completed; findings are in the report.
func Store(ctx context.Context, rows durable.Reader, o Options) (*Report, error) {
	o = o.withDefaults()
	r := o.report()
	logs, err := translog.Identities(rows)
	if err == nil && len(logs) == 0 {
		err = fmt.Errorf("%w: the store holds no log", errAbsent)
	}
	if err != nil {
		if err := fatal(ctx, err); err != nil {
			return r, err
		}
		r.addf(Identity, 0, translog.RowKey{Kind: translog.RowIdentity}.String(), "%v", err)
		logs = []translog.Identity{{Origin: originOf(o.VKey), VKey: o.VKey, Indexer: o.Indexer, Authority: o.Indexer.Authority()}}
	}
	sizes := make([]uint64, len(logs))
	for n, id := range logs {
		last := n == len(logs)-1
		if r.log = id.Origin; last {
			r.log = ""
		}
		s := &store{rows: rows, log: uint32(n), id: id}
		checkIdentity(r, &o, id, last)
		tree, err := s.head(r)
		if err != nil {
			return r, err
		}
		sizes[n] = tree.Size
		if last {
			r.Origin, r.TreeSize, r.Root = tree.Origin, tree.Size, tree.Root
			s.mark = o.Mark
			if o.MarkRequired && o.Mark == nil && tree.Size > 0 {
				r.addf(Mark, 0, "high-water mark", "it is not there, and without it nobody can tell whether the store is the newest")
			}
		} else if next := logs[n+1].Continues; next != nil && next.Tree() != tree {
			r.addf(Identity, 0, "end", "it ended with %d entries, the log after it says %d of %s", tree.Size, next.Size, next.Origin)
		}
		w := &walk{o: &o, report: r, src: s, log: uint32(n), tree: tree,
			judge: judge{o: &o, vkey: id.VKey, continues: id.Continues, chained: true}}
		if err := w.run(ctx); err != nil {
			return r, err
		}
	}
	r.log = ""
	return r, fatal(ctx, strays(ctx, rows, r, sizes))
}

// fatal is an error that says that there is nothing to be checked any more. A
// store that fails, as Pebble has it do at damage that it meets, is a finding.
func fatal(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, durable.ErrClosed) {
		return cmp.Or(ctx.Err(), err)
	}
	return nil
}

// originOf is the name in a verifier key.
func originOf(vkey string) string {
	origin, _, _ := strings.Cut(vkey, "+")
	return origin
}

func checkIdentity(r *Report, o *Options, id translog.Identity, last bool) {
	key := translog.RowKey{Kind: translog.RowIdentity}.String()
	switch {
	case last && id.VKey != o.VKey:
		r.addf(Identity, 0, key, "the store holds the log with the key %s, asked for is %s", id.VKey, o.VKey)
	case o.Indexer != "" && id.Indexer != o.Indexer:
		r.addf(Identity, 0, key, "it is the log of %s", id.Indexer)
	case id.Origin != originOf(id.VKey):
		r.addf(Identity, 0, key, "it is called %.80q, and has the key %s", id.Origin, id.VKey)
	case id.Authority != id.Indexer.Authority():
		r.addf(Identity, 0, key, "its authority is %s", id.Authority)
	}
}

// A store is one log as a store has it.
type store struct {
	rows durable.Reader
	log  uint32
	id   translog.Identity
	mark *translog.Tree
}

func (s *store) key(kind translog.RowKind, number uint64) []byte {
	return translog.RowKey{Kind: kind, Log: s.log, Number: number}.Bytes()
}

func (s *store) found(err error) (Kind, bool) {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, durable.ErrClosed):
		return "", false
	case errors.Is(err, durable.ErrNotFound), errors.Is(err, errAbsent):
		return Missing, true
	}
	return Unreadable, true
}

// head is the tree of the last commit, by whatever says it: what is wrong with
// the checkpoint is found when it is judged.
func (s *store) head(r *Report) (translog.Tree, error) {
	for _, kinds := range [][2]translog.RowKind{
		{translog.RowHeadNote, translog.RowHead}, {translog.RowLatestNote, translog.RowLatest},
	} {
		note, err := s.rows.Get(s.key(kinds[0], 0))
		if err == nil {
			if t, err := translog.OpenNote(note, s.id.VKey); err == nil {
				return t, nil
			}
		}
		raw, err := s.rows.Get(s.key(kinds[1], 0))
		if err == nil {
			if _, c, err := translog.ParseCheckpoint(raw); err == nil {
				return translog.Tree{Origin: s.id.Origin, Size: c.TreeSize, Root: c.Root}, nil
			}
		}
	}
	t := translog.Tree{Origin: s.id.Origin}
	lo, hi := translog.RowBounds(s.log, translog.RowEntry)
	for row, err := range s.rows.ScanReverse(lo, hi) {
		if k := translog.ParseRowKey(row.Key); err == nil && k.Kind == translog.RowEntry {
			t.Size = k.Number + 1
		}
		break
	}
	r.addf(Root, 0, "checkpoint", "none can be read; %d entries seem to be there", t.Size)
	return t, nil
}

// bundles scans entries and sets side by side.
func (s *store) bundles(ctx context.Context, first, size uint64) iter.Seq2[bundle, error] {
	return func(yield func(bundle, error) bool) {
		entries := newCursor(s.rows.Scan(s.key(translog.RowEntry, first*translog.TileWidth), s.key(translog.RowEntry, size)))
		defer entries.stop()
		sets := newCursor(s.rows.Scan(s.key(translog.RowSet, first*translog.TileWidth), s.key(translog.RowSet, size)))
		defer sets.stop()
		for i := first; i*translog.TileWidth < size; i++ {
			b := bundle{index: i, keeps: true, sets: make(map[uint64][]byte)}
			err := ctx.Err()
			first, width := i*translog.TileWidth, translog.Width(size, 0, i)
			b.entries = make([][]byte, width)
			if err == nil {
				err = entries.until(first+uint64(width), &b, func(n uint64, v []byte) { b.entries[n-first] = v })
			}
			if err == nil {
				err = sets.until(first+uint64(width), &b, func(n uint64, v []byte) { b.sets[n] = v })
			}
			if err == nil && width == translog.TileWidth {
				b.tile, err = s.tile(ctx, 0, i, width)
				if kind, ok := s.found(err); ok {
					b.bad = append(b.bad, Finding{Kind: kind, Index: i, Key: fmt.Sprintf("tile 0/%d", i), Detail: err.Error()})
					err = nil
				}
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// A cursor reads rows of one kind that are numbered.
type cursor struct {
	next func() (durable.Row, error, bool)
	stop func()
	row  *durable.Row // read, and beyond what was asked for
}

func newCursor(seq iter.Seq2[durable.Row, error]) *cursor {
	c := new(cursor)
	c.next, c.stop = iter.Pull2(seq)
	return c
}

// until hands every row with a number below n to f; others are findings of b.
func (c *cursor) until(n uint64, b *bundle, f func(n uint64, value []byte)) error {
	for {
		if c.row == nil {
			row, err, ok := c.next()
			if !ok || err != nil {
				return err
			}
			c.row = &row
		}
		switch k := translog.ParseRowKey(c.row.Key); {
		case k.Kind == translog.RowUnknown:
			b.bad = append(b.bad, stray(c.row.Key))
		case k.Number >= n:
			return nil
		case len(c.row.Value) > translog.MaxBundle:
			b.bad = append(b.bad, Finding{Kind: Unreadable, Index: k.Number, Key: k.String(), Detail: fmt.Sprintf("%d octets", len(c.row.Value))})
		default:
			f(k.Number, append([]byte{}, c.row.Value...))
		}
		c.row = nil
	}
}

// tile reads a full tile; others are not stored.
func (s *store) tile(_ context.Context, level int, index uint64, width int) ([]byte, error) {
	if width < translog.TileWidth {
		return nil, nil
	}
	b, err := s.rows.Get(translog.RowKey{Kind: translog.RowTile, Log: s.log, Level: level, Number: index}.Bytes())
	if errors.Is(err, durable.ErrNotFound) {
		return nil, errAbsent
	}
	if err == nil && b == nil {
		b = []byte{}
	}
	return b, err
}

// claims merges the checkpoints of each size with the few others.
func (s *store) claims(ctx context.Context, head translog.Tree) iter.Seq2[claim, error] {
	return func(yield func(claim, error) bool) {
		others, err := s.others()
		if err != nil {
			yield(claim{}, err)
			return
		}
		lo, hi := translog.RowBounds(s.log, translog.RowPublished)
		for row, err := range s.rows.Scan(lo, hi) {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(claim{}, err)
				return
			}
			k := translog.ParseRowKey(row.Key)
			if k.Kind != translog.RowPublished {
				continue // found among the strays
			}
			for len(others) > 0 && others[0].size < k.Number {
				if !yield(others[0], nil) {
					return
				}
				others = others[1:]
			}
			if !yield(claim{key: k.String(), size: k.Number, kind: Checkpoint, raw: bytes.Clone(row.Value), place: first}, nil) {
				return
			}
		}
		for _, c := range others {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// others are what is said of the tree beside the first checkpoint of each size.
// One that cannot be read has the size 0 here, and is found as it is opened.
func (s *store) others() ([]claim, error) {
	var all []claim
	for _, c := range []struct {
		raw, note translog.RowKind
		place     place
	}{
		{translog.RowHead, translog.RowHeadNote, committed},
		{translog.RowLatest, translog.RowLatestNote, refreshed},
		{translog.RowHeld, translog.RowHeldNote, held},
	} {
		raw, err1 := s.rows.Get(s.key(c.raw, 0))
		note, err2 := s.rows.Get(s.key(c.note, 0))
		none := errors.Is(err1, durable.ErrNotFound) && errors.Is(err2, durable.ErrNotFound)
		if none && c.place == held {
			continue
		}
		for _, err := range []error{err1, err2} {
			if err != nil && !errors.Is(err, durable.ErrNotFound) {
				return nil, err
			}
		}
		if note == nil {
			note = []byte{} // there has to be one
		}
		_, body, _ := translog.ParseCheckpoint(raw) // judged when it is opened
		all = append(all, claim{
			key: translog.RowKey{Kind: c.raw}.String(), size: body.TreeSize, kind: Checkpoint, raw: raw, note: note, place: c.place,
		})
	}
	if s.mark != nil {
		all = append(all, claim{key: "high-water mark", size: s.mark.Size, root: s.mark.Root, kind: Mark})
	}
	slices.SortStableFunc(all, func(a, b claim) int { return cmp.Compare(a.size, b.size) })
	return all, nil
}

// strays finds rows that have no place in logs of these sizes. Entries and sets
// within them were looked at before, and are passed over.
func strays(ctx context.Context, rows durable.Reader, r *Report, sizes []uint64) error {
	lo, hi := translog.AllRows()
	for lo != nil {
		var next []byte
		for row, err := range rows.Scan(lo, hi) {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				if fatal(ctx, err) == nil {
					r.addf(Unreadable, 0, "rows", "%v", err)
				}
				return err
			}
			k := translog.ParseRowKey(row.Key)
			if k.Kind == translog.RowUnknown || int(k.Log) >= len(sizes) || misplaced(k, sizes[k.Log]) {
				r.Add(stray(row.Key))
				continue
			}
			if k.Kind == translog.RowEntry || k.Kind == translog.RowSet {
				next = translog.RowKey{Kind: k.Kind, Log: k.Log, Number: sizes[k.Log]}.Bytes()
				break
			}
		}
		lo = next
	}
	return nil
}

// misplaced reports whether a row is beyond a log of that size.
func misplaced(k translog.RowKey, size uint64) bool {
	switch k.Kind {
	case translog.RowEntry, translog.RowSet:
		return k.Number >= size
	case translog.RowTile:
		return translog.Width(size, k.Level, k.Number) < translog.TileWidth
	}
	return false
}

func stray(key []byte) Finding {
	k := translog.ParseRowKey(key)
	name := fmt.Sprintf("row %.80x", key)
	if k.Kind != translog.RowUnknown {
		name = k.String()
	}
	return Finding{Kind: Stray, Index: k.Number, Key: name, Detail: "nothing of this log belongs there"}
}
