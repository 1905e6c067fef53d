package durable

import "context"

// Flush writes the memtable out and begins a new log, as Pebble does by itself
// once the memtable is full.
func (s *Store) Flush() error { return s.do(s.db.Flush) }

// Compact merges all tables into the bottom level.
func (s *Store) Compact() error {
	return s.do(func() error { return s.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false) })
}

// Kept is how many octets of blocks the cache holds.
func (s *Store) Kept() int64 { return s.db.Metrics().BlockCache.Size }
