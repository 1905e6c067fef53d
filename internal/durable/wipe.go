package durable

import "context"

// Wipe writes the tables that may hold lo <= key < hi anew, so that what was
// deleted there is in no file of the store any more, unless a snapshot that was
// taken before still shows it. It reads and writes about as much as lies there,
// beside everything else that goes on. A range in which nothing is left is the
// cheapest.
func (s *Store) Wipe(ctx context.Context, lo, hi []byte) error {
	return s.do(func() error { return s.db.Compact(ctx, lo, hi, false) })
}
