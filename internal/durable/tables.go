package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/sstable"
)

// CheckTables reads every block of every table and compares its checksum, and gives
// found the name of each table that is damaged, with what is wrong with it. A scan
// does not come to all of them: a block may hold nothing but rows that were deleted
// since, and the merge that throws these away would end the store. Values that have files
// of their own are not looked at; what is dead of them is never read again. It
// may run while the store is written to; a table that is merged away meanwhile is
// passed over, and a store that has failed is looked at as well: damage may be why.
// Errors: ctx's, ErrClosed.
func (s *Store) CheckTables(ctx context.Context, found func(table string, err error)) error {
	if s.closed.Load() {
		return ErrClosed
	}
	levels, err := s.db.SSTables()
	if err != nil {
		return err
	}
	seen := make(map[string]bool) // a file may stand for several tables
	for _, tables := range levels {
		for _, t := range tables {
			name := fmt.Sprintf("%s.sst", t.BackingSSTNum)
			if seen[name] {
				continue
			}
			seen[name] = true
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.checkTable(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				found(name, err)
			}
		}
	}
	return nil
}

// checkTable is CheckTables of one. Memory: its index, and a block.
func (s *Store) checkTable(ctx context.Context, name string) (err error) {
	defer func() {
		if p := recover(); p != nil { // of Pebble, over what is damaged
			err = recovered(p)
		}
	}()
	f, err := s.fs.Open(filepath.Join(s.guard.dir, name))
	if err != nil {
		return err
	}
	file, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(ctx, file, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}
