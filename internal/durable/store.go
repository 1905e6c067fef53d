package durable

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors that callers branch on.
var (
	// ErrFailed: a write to the store failed, or Pebble found that it cannot go
	// on. What was being committed may be durable or not. Close the program;
	// the next Open decides.
	ErrFailed = errors.New("the store has failed and must be opened anew")
	// ErrLocked: the folder is in use.
	ErrLocked = errors.New("another process has the store open")
	// ErrNotFound: the key has no value.
	ErrNotFound = errors.New("not found")
	// ErrClosed: the Store was closed.
	ErrClosed = errors.New("the store is closed")
)

// formatVersion is what is written to disk, pinned so that a new Pebble does
// not change it in passing. Below 20 (FormatWALSyncChunks) Pebble takes damage
// in the middle of a log for its end, and drops what was synced behind it.
const formatVersion = pebble.FormatValueSeparation

const (
	defaultCache = 32 << 20

	// A memtable of this size takes a batch of up to half of it; larger ones
	// go to disk as tables of their own. Two of them may be in memory.
	defaultMemTable = 8 << 20

	// Pebble takes the memtables there are, and one that waits to be used again,
	// out of the cache: without room for them in it no block is ever kept.
	memTables = 2

	// Tables of level 0 are merged into the next level, which is written anew where they
	// fall, when there are half as many layers of them. With Pebble's 4 a push of many
	// small pages took a sixth more of the processors and of the time. A look-up asks
	// the filter of one more table for each layer.
	mergeLayers = 16

	// The filter of a table is one block, and is read whole when it is not in the
	// cache: larger tables, up to 128 MiB by themselves, would each have one that
	// takes a large part of the cache.
	firstTable, largestTable = 2 << 20, 8 << 20

	// A block is read whole for one look-up, and one of 32 KiB and more is a large
	// object to Go. Four times Pebble's size makes the index a quarter, which then
	// stays in the cache; where a table has many blocks it is in blocks as well.
	dataBlock, indexBlock = 16 << 10, 16 << 10

	// Ten bits a key: one in a hundred look-ups of a key that is not there
	// reads a block. Most look-ups for a new page or batch are of this kind.
	bloomBits = 10
)

// CacheOnce is enough CacheBytes for a store of which each block is read about once,
// beside a daemon that is at work with a cache of its own.
const CacheOnce = 4 << 20

// HeldLayers is with how many layers of tables at level 0 writes wait for compactions.
const HeldLayers = 40

// Options of a Store. The zero value is right for a program.
type Options struct {
	// CacheBytes bounds the block cache. 0 means 32 MiB.
	CacheBytes int64
	// MemTableBytes is how much is written to memory before it goes to a table; two
	// of them may be in memory. 0 means 8 MiB.
	MemTableBytes uint64
	// Logger receives Pebble's messages. nil means slog.Default().
	Logger *slog.Logger
	// Room is what is kept free of the disk.
	Room Room
	// Stall is how long a write or sync may take before Disk reports it; after
	// four times as long the store fails. 0 means 30 s.
	Stall time.Duration
	// FS is the file system. nil means the operating system's; tests set it.
	FS FS
}

// A Store is an ordered map from keys to values, on disk. It is safe for
// concurrent use. As a Reader it shows the latest commits, synced or not.
type Store struct {
	db     *pebble.DB
	guard  *guard
	keeper *keeper
	fs     vfs.FS // not guarded
	closed atomic.Bool
	reads  source

	ascending *ascending

	slotsMu sync.Mutex
	slots   map[string]bool // files opened by OpenSlots
}

// Open opens the store in the folder dir, which it makes if need be. The
// folder and all of its parents that were missing are durable on return.
// Errors: ErrLocked; damage; what the file system says, for a disk without room
// syscall.ENOSPC.
func Open(dir string, o Options) (*Store, error) {
	fs := o.FS
	if fs == nil {
		var err error
		if dir, err = realPath(dir); err != nil {
			return nil, err
		}
		fs = vfs.Default
	}
	dir = filepath.Clean(dir)
	log := cmp.Or(o.Logger, slog.Default())
	o.Stall = cmp.Or(o.Stall, 30*time.Second)
	g, k, err := keep(o, fs, dir, log)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, readable(err))
	}
	rising := new(ascending)
	opts := pebbleOptions(o, g, log)
	opts.Experimental.SpanPolicyFunc = rising.policy
	defer opts.Cache.Unref()

	db, err := openPebble(dir, opts, g)
	if err != nil {
		k.end(o.Stall)
		return nil, fmt.Errorf("open %s: %w", dir, readable(err))
	}
	s := &Store{db: db, guard: g, keeper: k, fs: g.FS, slots: make(map[string]bool), ascending: rising}
	s.reads = source{s, db}

	// The first log of a new store is begun before the format version is
	// raised, so damage in it would go unnoticed. A flush begins the next one.
	if err := s.do(s.db.Flush); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", dir, err), s.Close())
	}
	return s, nil
}

// openPebble is pebble.Open, which here panics no more, and does not wait for
// ever for a flush that has failed in the background.
func openPebble(dir string, opts *pebble.Options, g *guard) (*pebble.DB, error) {
	type opened struct {
		db  *pebble.DB
		err error
	}
	done := make(chan opened, 1)
	go func() {
		var o opened
		defer func() {
			if p := recover(); p != nil {
				o = opened{err: recovered(p)}
			}
			done <- o
		}()
		o.db, o.err = pebble.Open(dir, opts)
	}()
	select {
	case o := <-done:
		return o.db, o.err
	case <-g.failed:
		return nil, g.err()
	}
}

// realPath gives one folder one name, so that the lock sees a second Open
// within this process too.
func realPath(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if p, err := filepath.EvalSymlinks(dir); err == nil {
		return p, nil
	}
	return dir, nil // not there yet, or an error that Open will meet again
}

func pebbleOptions(o Options, g *guard, log *slog.Logger) *pebble.Options {
	l, memTable := logger{log, g}, cmp.Or(o.MemTableBytes, defaultMemTable)
	opts := &pebble.Options{
		FS:                 g,
		Cache:              pebble.NewCache(cmp.Or(o.CacheBytes, defaultCache) + memTables*int64(memTable)),
		FormatMajorVersion: formatVersion,
		MemTableSize:       memTable,
		Logger:             l,
		EventListener:      listener(log, g),
		// The rest stays as Pebble has it. In particular the log is synced by
		// each Commit and not on a timer, and nothing is ingested or shared.
	}
	// What costs next to nothing: sealed payloads and hashes do not shrink, and of what
	// does, zstd saved 2.4 % of an indexer's disk, for an encoder of 8 MiB for each
	// table that is written and a decoder for each block that is read.
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		return pebble.UniformDBCompressionSettings(block.FastestCompression)
	})
	opts.Experimental.ValueSeparationPolicy = separation
	opts.L0CompactionThreshold, opts.L0StopWritesThreshold = mergeLayers, HeldLayers
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
		opts.Levels[i].BlockSize, opts.Levels[i].IndexBlockSize = dataBlock, indexBlock
		opts.TargetFileSizes[i] = min(int64(firstTable)<<i, largestTable)
	}
	return opts
}

// mostDepth is how many files of values the tables of one place may refer to before a
// merge writes the values anew, for the sake of whoever reads many in a row. Pebble asks
// for a number; with 10 that was a fifth of what an entry of a log cost, since eight
// layers of tables and more are merged at once, each with a file of its own.
const mostDepth = 64

// separation has values of some size, such as entries, receipts and frames, written
// once behind the log, into files of their own; what merges and moves tables then
// carries keys and small values alone. A file of which a fifth is dead is written
// anew, though not in its first minutes, in which all of it may die.
func separation() pebble.ValueSeparationPolicy {
	return pebble.ValueSeparationPolicy{
		Enabled: true, MinimumSize: 768, MaxBlobReferenceDepth: mostDepth,
		RewriteMinimumAge: 5 * time.Minute, TargetGarbageRatio: 0.2,
	}
}

// do runs f, which calls Pebble to write, and returns what it returned, or
// ErrFailed as soon as the store has failed: f may then never return.
func (s *Store) do(f func() error) error {
	if err := s.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go s.guarded(func() { done <- f() })
	return s.await(done)
}

// guarded runs f, in which a panic of Pebble is a failure of the store.
func (s *Store) guarded(f func()) {
	defer func() {
		if p := recover(); p != nil {
			s.guard.fail(recovered(p))
		}
	}()
	f()
}

// await waits for done or for the failure of the store.
func (s *Store) await(done <-chan error) error {
	select {
	case err := <-done:
		// A failure that came first counts, whatever was made of it.
		if failure := s.guard.err(); failure != nil {
			return failure
		}
		return err
	case <-s.guard.failed:
		return s.guard.err()
	}
}

// recovered is what Pebble panicked with, as an error.
func recovered(p any) error {
	if err, ok := p.(error); ok {
		return fmt.Errorf("pebble: %w", err)
	}
	return fmt.Errorf("pebble: %v", p)
}

// Failed is closed when the store has failed.
func (s *Store) Failed() <-chan struct{} { return s.guard.failed }

// Err is nil while the store is usable, else ErrFailed with its cause, or
// ErrClosed.
func (s *Store) Err() error {
	if err := s.guard.err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return ErrClosed
	}
	return nil
}

// Close ends the use of the store. Snapshots, batches, slots and scans must
// have ended before. A store that has failed cannot be closed: its folder
// stays locked until the process ends, and Close says ErrFailed. A disk that does
// not answer is waited for as long as Options.Stall.
func (s *Store) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return s.guard.err()
	}
	defer s.keeper.end(s.guard.stalls.limit)
	s.Closing()
	if err := s.guard.err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- s.db.Close() }()
	select {
	case err := <-done:
		return err
	case <-s.guard.failed:
		return s.guard.err()
	}
}

// Checkpoint copies the store, as of now, into the folder dir, which must not
// exist and must lie outside the store's. Files are linked where that is
// possible. The copy was opened and closed again when it returns nil.
func (s *Store) Checkpoint(dir string) error {
	dir = filepath.Clean(dir)
	if s.guard.covers(dir) {
		return fmt.Errorf("checkpoint %s: inside the store itself", dir)
	}
	err := s.do(func() error { return s.db.Checkpoint(dir, pebble.WithFlushedWAL()) })
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	opts := pebbleOptions(Options{CacheBytes: 1 << 20}, newGuard(s.fs, dir), slog.New(slog.DiscardHandler))
	defer opts.Cache.Unref()
	opts.ReadOnly = true
	db, err := pebble.Open(dir, opts)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s cannot be opened: %w", dir, err)
	}
	return nil
}

// Metrics is what an operator watches.
type Metrics struct {
	DiskBytes     uint64 // everything in the folder
	LogBytes      uint64 // the live part of the write-ahead log
	MemTableBytes uint64
	L0Files       int64  // rising means that compaction does not keep up
	ReadAmp       int    // tables that one look-up may have to ask
	L0Sublevels   int32  // layers of them; at HeldLayers writes begin to wait
	WriteStalls   uint64 // times that writes waited for compactions or flushes
	Compacting    int64  // compactions under way
}

// Metrics reads the counters; it costs some microseconds.
func (s *Store) Metrics() (Metrics, error) {
	if err := s.Err(); err != nil {
		return Metrics{}, err
	}
	m := s.db.Metrics()
	return Metrics{
		DiskBytes: m.DiskSpaceUsage(), LogBytes: m.WAL.Size, MemTableBytes: m.MemTable.Size,
		L0Files: m.Levels[0].TablesCount, ReadAmp: m.ReadAmp(),
		L0Sublevels: m.Levels[0].Sublevels, WriteStalls: s.guard.writeStalls.Load(), Compacting: m.Compact.NumInProgress,
	}, nil
}
