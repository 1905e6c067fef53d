package peer

import (
	"encoding/binary"
	"errors"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
)

// Pebble is the engine alone, with the memtable and cache of our store, and values
// of some size in files of their own as there: keys that rise, values and nothing else.
type Pebble struct {
	db   *pebble.DB
	next uint64
}

// OpenPebble begins a database in dir.
func OpenPebble(dir string) (*Pebble, error) {
	cache := pebble.NewCache(64 << 20)
	defer cache.Unref()
	o := &pebble.Options{
		Cache: cache, MemTableSize: 8 << 20, FormatMajorVersion: pebble.FormatValueSeparation, Logger: silent{},
	}
	o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{
			Enabled: true, MinimumSize: 768, MaxBlobReferenceDepth: 10,
			RewriteMinimumAge: 5 * time.Minute, TargetGarbageRatio: 0.2,
		}
	}
	db, err := pebble.Open(dir, o)
	return &Pebble{db: db}, err
}

// Close closes the database.
func (p *Pebble) Close() error { return p.db.Close() }

// Write writes rows in one batch, and syncs it.
func (p *Pebble) Write(rows iter.Seq2[[]byte, []byte]) error {
	b := p.db.NewBatch()
	for key, value := range rows {
		if err := b.Set(key, value, nil); err != nil {
			return err
		}
	}
	return errors.Join(b.Commit(pebble.Sync), b.Close())
}

// Sets writes batches of that many values of size octets, each synced, one
// after the other, for as long as l says, with its Adders left out of account.
// Rate counts values, P50 and P99 are of a batch.
func (p *Pebble) Sets(l load.Load, batch int) (load.Sample, error) {
	value := load.Entries(p.next, l.Size)
	var took load.Histogram
	began := time.Now()
	from, until := began.Add(l.Warm), began.Add(l.Warm+l.For)
	for {
		start := time.Now()
		if start.After(until) {
			break
		}
		b := p.db.NewBatch()
		for range batch {
			p.next++
			if err := b.Set(binary.BigEndian.AppendUint64([]byte("Le"), p.next), value(), nil); err != nil {
				return load.Sample{}, err
			}
		}
		if err := b.Commit(pebble.Sync); err != nil {
			return load.Sample{}, err
		}
		if err := b.Close(); err != nil {
			return load.Sample{}, err
		}
		if end := time.Now(); end.After(from) && !end.After(until) {
			took.Add(end.Sub(start))
		}
	}
	return load.Sample{
		Rate: float64(batch) * float64(took.Count()) / l.For.Seconds(),
		P50:  took.Quantile(0.50), P99: took.Quantile(0.99),
	}, nil
}

// silent keeps Pebble's messages away from the table.
type silent struct{}

func (silent) Infof(string, ...any)           {}
func (silent) Errorf(string, ...any)          {}
func (silent) Fatalf(format string, a ...any) { pebble.DefaultLogger.Fatalf(format, a...) }
