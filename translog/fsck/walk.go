package fsck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/inorder"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A source is where a log is read from. What it cannot read is ErrAbsent, or an
// error that report says is a finding; any other error ends the check.
type source interface {
	// bundles yields every bundle of the tree of that size, in order, but for
	// those before the first.
	bundles(ctx context.Context, first, size uint64) iter.Seq2[bundle, error]
	// tile is the first width hashes of a tile, nil for one that this source
	// does not keep.
	tile(ctx context.Context, level int, index uint64, width int) ([]byte, error)
	// claims yields what is said about the tree as it was at a size, in
	// ascending order of sizes.
	claims(ctx context.Context, head translog.Tree) iter.Seq2[claim, error]
	// found reports whether an error of this source is a finding, and which.
	found(err error) (Kind, bool)
}

// A bundle is up to 256 entries as they are stored or served.
type bundle struct {
	index   uint64
	entries [][]byte          // nil where one is missing
	sets    map[uint64][]byte // kept hashes of decision sets, by index of the entry
	keeps   bool              // whether this source keeps those hashes
	tile    []byte            // the hashes at level 0, nil if none are kept
	bad     []Finding         // what the source found
}

// A checked bundle has been looked at by itself.
type checked struct {
	bundle
	hashes   []byte // of the entries
	objects  []*envelope.Object
	bodies   []*translog.Entry
	sets     uint64
	findings []Finding
}

// A walk goes through one log from its first entry to its last. One goroutine
// owns it; only look is called by others.
type walk struct {
	o      *Options
	report *Report
	src    source
	log    uint32
	tree   translog.Tree // by the newest checkpoint
	judge  judge         // of checkpoints

	// levels hold the tile at each level that is not full yet. The hashes are
	// those that hold: where an entry and its tile contradict one another, those
	// that the tile above agrees with, so that one damage is one finding.
	levels [][]byte
	front  frontier
	next   func() (claim, error, bool)
	claim  *claim // the next one, nil at the end
	times  times
}

// run walks the log. An error means that the check could not be completed.
func (w *walk) run(ctx context.Context) error {
	next, stop := iter.Pull2(w.src.claims(ctx, w.tree))
	defer stop()
	w.next = next
	w.front = w.o.From.open()
	for _, hashes := range w.o.From {
		w.levels = append(w.levels, append(make([]byte, 0, 32*translog.TileWidth), hashes...))
	}
	w.times.begin(w.o.After)
	if err := w.advance(); err != nil {
		return err
	}
	for c, err := range inorder.Map(w.src.bundles(ctx, w.front.size/translog.TileWidth, w.tree.Size), w.o.Workers, func(b bundle) (*checked, error) { return w.look(b), nil }) {
		if err == nil {
			err = w.take(ctx, c)
		} else if kind, ok := w.src.found(err); ok {
			w.report.addf(kind, w.front.size, fmt.Sprintf("entry %d", w.front.size), "%v", err)
			return nil // nothing behind it can be judged
		}
		if err != nil {
			return err
		}
	}
	if err := w.settle(w.front.size, nil); err != nil {
		return err
	}
	w.times.judge(w.report, w.front.size, nil)
	if w.front.size == w.tree.Size && !w.judge.head {
		if root := w.front.root(); root != w.tree.Root {
			w.report.addf(Root, 0, "checkpoint", "the root over %d entries is %x, the checkpoint says %x", w.tree.Size, root, w.tree.Root)
		}
	}
	return w.edge(ctx)
}

// look checks what can be told of a bundle by itself.
func (w *walk) look(b bundle) *checked {
	c := &checked{bundle: b, findings: b.bad, hashes: make([]byte, 0, 32*len(b.entries))}
	for i, raw := range b.entries {
		index := b.index*translog.TileWidth + uint64(i)
		if raw == nil {
			c.findings = append(c.findings, Finding{Kind: Missing, Index: index, Key: fmt.Sprintf("entry %d", index), Detail: "it is not there"})
			c.hashes = append(c.hashes, make([]byte, 32)...)
			c.objects, c.bodies = append(c.objects, nil), append(c.bodies, nil)
			continue
		}
		h := translog.LeafHash(raw)
		c.hashes = append(c.hashes, h[:]...)
		o, e, err := w.open(raw, index)
		if err != nil {
			c.findings = append(c.findings, Finding{Kind: Entry, Index: index, Key: fmt.Sprintf("entry %d", index), Detail: err.Error(), Rule: ruleOf(err)})
		}
		c.objects, c.bodies = append(c.objects, o), append(c.bodies, e)
		if e != nil && b.keeps {
			c.checkSet(index, e.Objects)
		}
	}
	return c
}

// open reads one entry. The body is nil if it cannot be read.
func (w *walk) open(raw []byte, index uint64) (*envelope.Object, *translog.Entry, error) {
	if w.o.Open != nil {
		return w.o.Open(raw, index)
	}
	o, err := envelope.Parse(raw)
	if err != nil {
		return nil, nil, err
	}
	e := new(translog.Entry)
	if o.Type != envelope.Entry {
		return nil, nil, fmt.Errorf("object_type %s", o.Type)
	}
	if w.o.Keys != nil && w.o.Signatures {
		_, err = envelope.Authenticate(raw, e, envelope.Verifier{Keys: w.o.Keys, Type: envelope.Entry, Threshold: 1})
	} else {
		err = o.DecodeBody(e)
	}
	if err != nil {
		return nil, nil, err
	}
	switch {
	case o.Sequence != index:
		return nil, nil, fmt.Errorf("it says that it is entry %d", o.Sequence)
	case e.LogOrigin != w.tree.Origin:
		return nil, nil, fmt.Errorf("it is of the log %.80q", e.LogOrigin)
	case w.o.Indexer != "" && e.Indexer != w.o.Indexer:
		return nil, nil, fmt.Errorf("it is of the indexer %.80q", string(e.Indexer))
	}
	return o, e, nil
}

// checkSet compares the hashes that were kept of a decision set with the set.
// None are kept of a set that counts its pages and names none of them.
func (c *checked) checkSet(index uint64, s translog.Set) {
	key := fmt.Sprintf("set %d", index)
	kept, ok := c.bundle.sets[index]
	empty := translog.SetOf(nil)
	switch {
	case !ok && s.Root != empty.Root:
		c.findings = append(c.findings, Finding{Kind: Missing, Index: index, Key: key, Detail: fmt.Sprintf("the hashes of its %d pages are not there", s.Count)})
	case !ok:
	case len(kept) == 0 || len(kept)%32 != 0:
		c.findings = append(c.findings, Finding{Kind: Set, Index: index, Key: key, Detail: fmt.Sprintf("%d octets", len(kept))})
	default:
		c.sets++
		leaves := make([][32]byte, len(kept)/32)
		for i := range leaves {
			leaves[i] = [32]byte(kept[32*i:])
		}
		if got := translog.SetOf(leaves); got != s {
			c.findings = append(c.findings, Finding{Kind: Set, Index: index, Key: key,
				Detail: fmt.Sprintf("%d hashes with the root %s, the entry says %d with %s", got.Count, got.Root, s.Count, s.Root)})
		}
	}
}

// take adds a bundle to the tree.
func (w *walk) take(ctx context.Context, c *checked) error {
	for _, f := range c.findings {
		w.report.Add(f)
	}
	hashes, err := w.agree(ctx, c)
	if err != nil {
		return err
	}
	first := c.index * translog.TileWidth
	w.report.Sets += c.sets
	for i, e := range c.bodies {
		if c.entries[i] != nil {
			w.report.Entries++
		}
		if e != nil && w.o.Visit != nil {
			w.o.Visit(w.log, c.objects[i], e)
		}
	}
	if err := w.settle(first+uint64(len(c.entries)), hashes); err != nil {
		return err
	}
	w.times.judge(w.report, first, c.objects)
	if len(hashes) == 32*translog.TileWidth {
		w.front.add(8, translog.TileRoot(hashes))
	} else {
		w.front.addLeaves(hashes)
	}
	if w.o.Progress != nil {
		w.o.Progress(w.front.size, w.tree.Size)
	}
	if err := w.append(ctx, 0, hashes); err != nil {
		return err
	}
	if w.o.Full != nil && len(hashes) == 32*translog.TileWidth {
		w.o.Full(w.front.size, w.levels)
	}
	return nil
}

// agree compares the entries of a bundle with its tile, and gives the hashes
// that hold.
func (w *walk) agree(ctx context.Context, c *checked) ([]byte, error) {
	if c.tile == nil || bytes.Equal(c.tile, c.hashes) {
		return c.hashes, nil
	}
	first := c.index * translog.TileWidth
	if len(c.tile) != len(c.hashes) {
		w.report.addf(Tile, first, fmt.Sprintf("tile 0/%d", c.index), "%d octets, want %d", len(c.tile), len(c.hashes))
		return c.hashes, nil
	}
	var differ []int
	for i := range c.entries {
		if c.entries[i] != nil && !bytes.Equal(c.tile[32*i:][:32], c.hashes[32*i:][:32]) {
			differ = append(differ, i)
		}
	}
	sound, err := w.sound(ctx, c, differ)
	if err != nil {
		return nil, err
	}
	for _, i := range differ {
		kind, key := Entry, fmt.Sprintf("entry %d", first+uint64(i))
		if sound {
			kind, key = Tile, fmt.Sprintf("tile 0/%d", c.index)
		}
		w.report.addf(kind, first+uint64(i), key, "the entry %d and its hash in tile 0/%d contradict one another", first+uint64(i), c.index)
	}
	if sound {
		return c.hashes, nil
	}
	return c.tile, nil
}

// sound decides whether the entries of a bundle hold that contradict its tile:
// if the tile above says so, or, where there is none, their signatures.
func (w *walk) sound(ctx context.Context, c *checked, differ []int) (bool, error) {
	if len(c.hashes) == 32*translog.TileWidth {
		index := c.index / translog.TileWidth
		above, err := w.src.tile(ctx, 1, index, translog.Width(w.tree.Size, 1, index))
		if _, ok := w.src.found(err); err != nil && !ok {
			return false, err
		}
		if at := int(c.index % translog.TileWidth * 32); err == nil && len(above) >= at+32 {
			root := translog.TileRoot(c.hashes)
			return bytes.Equal(root[:], above[at:at+32]), nil
		}
	}
	for _, i := range differ {
		if c.bodies[i] == nil {
			return false, nil
		}
	}
	return w.o.Keys != nil && w.o.Signatures, nil
}

// append adds hashes to the tile of a level that is not full yet, and one hash
// to the level above when it is full.
func (w *walk) append(ctx context.Context, level int, hashes []byte) error {
	if len(w.levels) == level {
		w.levels = append(w.levels, make([]byte, 0, 32*translog.TileWidth))
	}
	w.levels[level] = append(w.levels[level], hashes...)
	full := w.levels[level]
	if len(full) < 32*translog.TileWidth {
		return nil
	}
	index := (w.front.size - 1) >> (8 * level) / translog.TileWidth
	if level > 0 {
		if err := w.compare(ctx, level, index, full); err != nil {
			return err
		}
	}
	w.report.Tiles++
	root := translog.TileRoot(full)
	w.levels[level] = full[:0]
	return w.append(ctx, level+1, root[:])
}

// compare compares a tile with what lies below it.
func (w *walk) compare(ctx context.Context, level int, index uint64, want []byte) error {
	key := fmt.Sprintf("tile %d/%d", level, index)
	got, err := w.src.tile(ctx, level, index, len(want)/32)
	if kind, ok := w.src.found(err); ok {
		w.report.addf(kind, index, key, "%v", err)
		return nil
	}
	if err != nil || got == nil || bytes.Equal(got, want) {
		return err
	}
	if len(got) != len(want) {
		w.report.addf(Tile, index, key, "%d octets, want %d", len(got), len(want))
		return nil
	}
	for i := 0; i < len(got); i += 32 {
		if !bytes.Equal(got[i:i+32], want[i:i+32]) {
			w.report.addf(Tile, index, key, "hash %d is not that of the tile %d/%d below it", i/32, level-1, index*translog.TileWidth+uint64(i/32))
		}
	}
	return nil
}

// edge compares the tiles that are not full. Those at level 0 came with their
// entries.
func (w *walk) edge(ctx context.Context) error {
	for level, hashes := range w.levels {
		if level == 0 || len(hashes) == 0 {
			continue
		}
		if err := w.compare(ctx, level, w.tree.Size>>(8*level)/translog.TileWidth, hashes); err != nil {
			return err
		}
		w.report.Tiles++
	}
	return nil
}

// settle judges the claims about sizes up to size, of which the hashes are the
// last ones.
func (w *walk) settle(size uint64, hashes []byte) error {
	f := w.front.clone()
	for w.claim != nil && w.claim.size <= size {
		n := 32 * (w.claim.size - f.size)
		f.addLeaves(hashes[:n])
		hashes = hashes[n:]
		w.judge.root(w.report, w.claim, f.root())
		w.times.settled = append(w.times.settled, *w.claim)
		if err := w.advance(); err != nil {
			return err
		}
	}
	return nil
}

// advance reads the next claim. One that is about no size of this tree is found
// at once.
func (w *walk) advance() error {
	for {
		c, err, ok := w.next()
		switch {
		case !ok:
			w.claim = nil
			w.judge.end(w.report)
			return nil
		case err != nil:
			kind, found := w.src.found(err)
			if !found {
				return err
			}
			w.claim = nil
			w.report.addf(kind, 0, "checkpoints", "%v", err)
			return nil
		}
		if w.judge.accept(w.report, &c, w.tree) {
			w.claim = &c
			return nil
		}
	}
}

// errAbsent is what a source says of what is not there.
var errAbsent = errors.New("it is not there")
