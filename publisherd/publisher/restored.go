package publisher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// openingsFile stands beside the store, and in no backup: how often the store was
// opened, 8 octets, big-endian.
const openingsFile = "store.openings"

// noteOpening counts this opening of the store, in it and in a file beside it. A store
// that has counted fewer than the file, or has no file, is an older copy: what each
// indexer acknowledged since the copy was made is not in it, and every cursor says so
// until the indexer and we have agreed anew.
//
// The row becomes durable before the file: a crash in between leaves a store that has
// counted more, which is none that was put back.
func (p *Publisher) noteOpening() error {
	row, err := readOpenings(p.store.Get(openingsKey()))
	if err != nil {
		return fmt.Errorf("row of the store's openings: %w", err)
	}
	path := filepath.Join(p.dir, openingsFile)
	mark, err := readOpenings(os.ReadFile(path))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	b := p.store.NewBatch()
	defer b.Close()
	if row < mark || mark == 0 && row > 0 {
		p.log.Warn("the store was put back to an older copy")
		if err := p.doubtPlaces(b); err != nil {
			return err
		}
	}
	next := binary.BigEndian.AppendUint64(nil, max(row, mark)+1)
	if err := errors.Join(b.Set(openingsKey(), next), b.Commit()); err != nil {
		return err
	}
	return durable.WriteFile(path, next, 0o600)
}

// readOpenings takes a missing count for 0.
func readOpenings(b []byte, err error) (uint64, error) {
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case len(b) != 8:
		return 0, fmt.Errorf("%d octets, want 8", len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// doubtPlaces notes, for each agreement, that its indexer may be past the cursor.
func (p *Publisher) doubtPlaces(b *durable.Batch) error {
	rels, err := Relationships(p.dir)
	if err != nil {
		return err
	}
	for _, r := range rels {
		c, err := agreement{p.store, r}.cursor(p.store)
		if err != nil {
			return err
		}
		c.Doubted = true
		if err := durable.WriteJSON(b, rowKey('A', r.Series, 'c'), c); err != nil {
			return err
		}
	}
	return nil
}
