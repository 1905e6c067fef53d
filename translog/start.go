package translog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// start brings the log to where it stopped, and makes every check that must
// come before anything is signed or shown.
func (l *Log) start() error {
	var m mark
	var found bool
	var err error
	if l.mark, m, found, err = openMark(l.store, l.cfg.Dir, l.vkey); err != nil {
		return err
	}
	if m.highest.After(l.highest) {
		l.highest = m.highest
	}
	fresh, err := l.checkIdentity()
	if err != nil {
		return err
	}
	if fresh {
		if err := m.check(tree{rows: l.rows}); found && err != nil {
			return err
		}
		if l.cfg.ReadOnly {
			return fmt.Errorf("%w: there is none that could be read", ErrIdentity)
		}
		if err := l.askWitnesses(Tree{l.cfg.Origin, 0, emptyRoot()}, nil); err != nil {
			return err
		}
		if err := l.begin(); err != nil {
			return err
		}
	}
	if err := l.load(); err != nil {
		return err
	}
	t := l.edge.tree(l.rows)
	switch {
	case found:
		if err := m.check(t); err != nil {
			return err
		}
	case t.size > 0 && !l.cfg.TrustStore:
		return fmt.Errorf("%w, or nobody can tell: the store holds %d entries, and %s is missing from %s, which says how many this log has signed. "+
			"Put it back. After a restore to a new machine, and only if nothing newer than this store was ever shown, trust the store once",
			ErrRollback, t.size, markFile(l.vkey), l.cfg.Dir)
	}
	if err := l.loadPublished(t); err != nil {
		return err
	}
	if err := l.loadCandidate(t); err != nil {
		return err
	}
	if !fresh {
		if err := l.askAtStart(t); err != nil {
			return err
		}
	}
	// The mark is brought forward before the first release.
	now := mark{size: t.size, root: l.head.tree.Root, highest: l.highest}
	if !l.cfg.ReadOnly && (!found || m.size != now.size || !m.highest.Equal(now.highest)) {
		if err := l.mark.Write(now.bytes()); err != nil {
			return err
		}
	}
	l.published.Store(l.view(l.latest))
	rows, err := l.store.Snapshot()
	if err != nil {
		return err
	}
	l.release(l.view(l.head), rows)
	return nil
}

// checkIdentity finds the configured log among those of the store. fresh means
// that the store holds none.
func (l *Log) checkIdentity() (fresh bool, err error) {
	all, err := identities(l.store)
	if err != nil {
		return false, err
	}
	if len(all) == 0 {
		for _, err := range l.store.Scan([]byte{'L'}, []byte{'L' + 1}) {
			return false, errors.Join(fmt.Errorf("%w: rows of a log, and no %q", ErrCorrupt, rowIdentity), err)
		}
		return true, nil
	}
	got := all[len(all)-1]
	n := slices.IndexFunc(all, func(id identity) bool { return id.Vkey == l.vkey })
	if n >= 0 {
		got = all[n]
		l.rows.number, l.continues = uint32(n), got.Continues
	}
	if want := l.identity(); got != want {
		return false, fmt.Errorf("%w: %s of %s with key %s, configured is %s of %s with key %s. A log keeps its origin, indexer and key for life: "+
			"put keys and card of the store's log back, or, if they are those of a later rotation, the newest copy of the store",
			ErrIdentity, got.Origin, got.Indexer, got.Vkey, want.Origin, want.Indexer, want.Vkey)
	}
	if next := n + 1; next < len(all) {
		return false, fmt.Errorf("%w with a tree of %d, and goes on as %s", ErrEnded, all[next].Continues.Size, all[next].Origin)
	}
	return false, nil
}

// identity is what the store has to say of the configured log.
func (l *Log) identity() identity {
	return identity{l.cfg.Authority, l.continues, formatVersion, l.cfg.Indexer, l.cfg.Origin, l.vkey}
}

// begin commits the empty log: what it is, and its checkpoint of size 0, which
// is published too.
func (l *Log) begin() error {
	now, err := l.clock()
	if err != nil {
		return err
	}
	zero, err := l.signCheckpoint(Tree{l.cfg.Origin, 0, emptyRoot()}, envelope.Hash{}, now)
	if err != nil {
		return err
	}
	id, err := envelope.Canonical(l.identity())
	if err != nil {
		return err
	}
	b := l.store.NewBatch()
	defer b.Close() // a commit tells whether the batch is well
	if err := errors.Join(
		b.Set(l.rows.key([]byte(rowIdentity)), id), b.Set(l.rows.key(publishedKey(0)), zero.object.Raw),
		zero.write(b, l.rows, rowHead), zero.write(b, l.rows, rowLatest),
	); err != nil {
		return err
	}
	return b.Commit()
}

// load reads the checkpoint of the last commit and makes the right edge again
// from tiles and entries, which must agree.
func (l *Log) load() error {
	var err error
	if l.head, err = l.read(rowHead); err != nil {
		return fmt.Errorf("%w: checkpoint of the last commit: %w", ErrCorrupt, err)
	}
	size := l.head.tree.Size
	if l.edge, err = loadEdge(l.rows, size); err != nil {
		return err
	}
	root, err := l.edge.root()
	if err != nil {
		return err
	}
	if root != l.head.tree.Root {
		return fmt.Errorf("%w: the root over %d entries is %x, the checkpoint says %x", ErrCorrupt, size, root, l.head.tree.Root)
	}
	for row, err := range l.rows.Scan(entryKey(size), endOf(rowEntry)) {
		return errors.Join(fmt.Errorf("%w: an entry %x behind a tree of size %d", ErrCorrupt, row.Key, size), err)
	}
	l.last = l.head.object.IssuedAt
	return checkLastBundle(l.edge.tree(l.rows))
}

// loadEdge makes the edge of the tree of that size.
func loadEdge(rows durable.Reader, size uint64) (*edge, error) {
	e := &edge{size: size}
	for level := 0; size>>(level*tileHeight) > 0; level++ {
		n := size >> (level * tileHeight)
		var open []byte
		if n%tileWidth > 0 {
			open = make([]byte, 0, tileSize)
		}
		for i := n - n%tileWidth; i < n; i++ {
			h, err := loadHash(rows, level, i)
			if err != nil {
				return nil, err
			}
			open = append(open, h...)
		}
		e.open = append(e.open, open)
	}
	var err error
	e.subtrees, err = e.tree(rows).subtreesAt(size)
	return e, err
}

// loadHash computes hash i of the tiles at level from what lies below it.
func loadHash(rows durable.Reader, level int, i uint64) ([]byte, error) {
	key := entryKey(i)
	if level > 0 {
		key = tileKey(level-1, i)
	}
	b, err := rows.Get(key)
	if errors.Is(err, durable.ErrNotFound) {
		return nil, fmt.Errorf("%w: row %x is missing", ErrCorrupt, key)
	}
	if err != nil {
		return nil, err
	}
	if level == 0 {
		h := LeafHash(b)
		return h[:], nil
	}
	if len(b) != tileSize {
		return nil, fmt.Errorf("%w: row %x has %d octets", ErrCorrupt, key, len(b))
	}
	return foldTile(b), nil
}

// checkLastBundle hashes the entries of the last full bundle, and compares them
// with the tile at level 0. The entries behind it are what the edge was made of.
func checkLastBundle(t tree) error {
	bundles := t.size / tileWidth
	if bundles == 0 {
		return nil
	}
	tile, err := t.tile(0, bundles-1)
	if err != nil {
		return err
	}
	for i := range uint64(tileWidth) {
		h, err := loadHash(t.rows, 0, (bundles-1)*tileWidth+i)
		if err != nil {
			return err
		}
		if !bytes.Equal(h, tile[i*32:][:32]) {
			return fmt.Errorf("%w: entry %d is not what its tile says", ErrCorrupt, (bundles-1)*tileWidth+i)
		}
	}
	return nil
}

// loadPublished reads what was published last, which the tree must contain.
func (l *Log) loadPublished(t tree) error {
	var err error
	if l.latest, err = l.read(rowLatest); err != nil {
		return fmt.Errorf("%w: the checkpoint published last: %w", ErrCorrupt, err)
	}
	size := l.latest.tree.Size
	root, err := t.rootAt(size)
	if err != nil || root != l.latest.tree.Root {
		return errors.Join(fmt.Errorf("%w: published was size %d with root %x, the root there is %x", ErrCorrupt, size, l.latest.tree.Root, root), err)
	}
	raw, err := l.rows.Get(publishedKey(size))
	if err != nil {
		return fmt.Errorf("%w: the first checkpoint published at size %d: %w", ErrCorrupt, size, err)
	}
	first, c, err := parseCheckpoint(raw)
	if err != nil || c.TreeSize != size || c.Root != envelope.Hash(root) {
		return errors.Join(fmt.Errorf("%w: the first checkpoint published at size %d", ErrCorrupt, size), err)
	}
	if err := l.checkPrevious(size, c.PreviousHash); err != nil {
		return err
	}
	l.chain = chain{size, first.ID, c.PreviousHash}
	if at := l.latest.object.IssuedAt; at.After(l.last) {
		l.last = at
	}
	if l.last.After(l.highest) {
		l.highest = l.last
	}
	return nil
}

// checkPrevious reads the checkpoint published before the one at size, which
// names it: what is published next goes on from a chain that can be read.
func (l *Log) checkPrevious(size uint64, want envelope.Hash) error {
	for row, err := range l.rows.ScanReverse(publishedKey(0), publishedKey(size)) {
		var o *envelope.Object
		if err == nil {
			o, _, err = parseCheckpoint(row.Value)
		}
		if err != nil || o.ID != want {
			return errors.Join(fmt.Errorf("%w: the checkpoint published before size %d is not %s, which it names", ErrCorrupt, size, want), err)
		}
		return nil
	}
	if size > 0 || !want.IsZero() {
		return fmt.Errorf("%w: no checkpoint was published before size %d, which names %s", ErrCorrupt, size, want)
	}
	return nil
}
