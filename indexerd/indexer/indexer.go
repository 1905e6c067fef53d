package indexer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/tracing"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// Limits are what an indexer accepts.
type Limits struct {
	ChunkBytes uint32 // of one message of a batch's frame
	BatchItems uint32
	BatchBytes uint64 // of one frame after decompression
	PageBytes  uint64 // of one payload
	AloneBytes uint64 // of one payload that may share a batch; 0: no page travels alone
	// Batches is how many batches are decoded and committed at once, over all
	// sessions. The octets of all batches that are being received or worked on,
	// compressed and decompressed, are what so many of the largest have.
	Batches int
}

// batchMemory is the greatest sum of what batches announce of their frames,
// over all sessions.
func (l Limits) batchMemory() int64 { return int64(l.Batches) * 2 * int64(l.BatchBytes+itemBytes) }

// DefaultLimits are the limits of Config's zero value.
func DefaultLimits() Limits {
	return Limits{ChunkBytes: 1 << 20, BatchItems: 8192, BatchBytes: 64 << 20, PageBytes: content.MaxPayload, AloneBytes: 16 << 20, Batches: 4}
}

// Config is what an Indexer is opened with.
type Config struct {
	// Dir holds keys, trust and the store.
	Dir string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives one line an event; nil discards.
	Log *slog.Logger
	// Limits are what is accepted; the zero value means DefaultLimits.
	Limits Limits
	// Publish is the interval of published checkpoints; 0 means 1 s.
	Publish time.Duration
	// MaxGrant caps the life of a grant; 0 means 90 days.
	MaxGrant time.Duration
	// Room is what the store keeps free of its disk; Stall is how long a write
	// may take before it is reported, 0 means 30 s.
	Room  durable.Room
	Stall time.Duration
	// Witnesses cosign published checkpoints; nil: nobody does. FailClosed holds
	// back what their quorum has not cosigned.
	Witnesses  *witness.Group
	FailClosed bool
	// Frozen opens an indexer whose log is frozen, to be read: it accepts no
	// session, and takes nothing in.
	Frozen bool
	// ReadOnly opens an indexer to be looked at: its log signs nothing, and none of
	// its work is taken up. It accepts no session.
	ReadOnly bool
	// TrustStore opens a store that was restored from a backup, beside which
	// there is no high-water mark. Set it once, and only if nothing newer than
	// the backup was ever shown to anybody: see translog.Config.
	TrustStore bool
	// Certificate is where somebody else keeps the certificate and renews it;
	// nil: the identity issues its own.
	Certificate *identity.CertificateFiles
	// Requests say how pages are asked for; the zero value means the defaults.
	Requests Requests
	// Allowance is what each publisher may use; the zero value limits nothing.
	Allowance Allowance
	// Trace makes spans of the work; nil makes none.
	Trace *tracing.Tracer
	// FS is the file system of the store and of the log's high-water mark; nil
	// means the operating system's. Tests set it.
	FS durable.FS
}

// An Indexer is one identity with its log, catalogue and trusted publishers.
// It holds the store's lock until Close.
type Indexer struct {
	cfg   Config
	log   *slog.Logger
	local *identity.Local
	trust *identity.Trust
	store *durable.Store
	tlog  *translog.Log
	ended []*translog.Log  // the logs before it, the first one first
	past  []*identity.Card // the cards before local's, the newest first
	keys  *dataKeys

	tender   tender
	asks     asks
	sessions registry
	posts    *rate.Limiter       // of revocations on the public side
	memory   *semaphore.Weighted // octets of the batches in hand
	credits  *semaphore.Weighted // octets that batches may begin with
	slots    chan struct{}       // one for each batch being worked on
	patience time.Duration       // of a batch that waits for either
	segment  atomic.Uint64       // the last segment number given
	decoder  *zstd.Decoder
	readers  sync.WaitGroup // reading goroutines: each ends with its stream

	// frozen says why nothing is signed, nil of an indexer that works.
	frozen *Frozen

	feed   *hub
	frames *frameCache
	// keyless has the number of each series of which a key was missing, and was told.
	keyless sync.Map

	large *larges
	alone chan struct{} // one for each page that is received alone

	pulse *pulse

	maxGrant  atomic.Int64 // a time.Duration: the longest life of a grant that is accepted
	allowance atomic.Pointer[Allowance]
	requests  atomic.Pointer[Requests]
	paces     paces
	times     times

	haltOnce sync.Once
	haltErr  error // set before halted is closed
	halted   chan struct{}
}

// SetMaxGrant caps the life of grants that are announced from now on, at any time;
// 0 means 90 days. What is agreed already stays.
func (x *Indexer) SetMaxGrant(most time.Duration) { x.maxGrant.Store(int64(most)) }

// Open opens the indexer that lives in c.Dir and starts its log's writer.
func Open(c Config) (_ *Indexer, err error) {
	c = c.withDefaults()
	x := &Indexer{
		cfg: c, log: c.Log, keys: newDataKeys(filepath.Join(c.Dir, "keys", "data")),
		sessions: registry{byName: make(map[envelope.Name]*member)}, slots: make(chan struct{}, c.Limits.Batches),
		memory: semaphore.NewWeighted(c.Limits.batchMemory()), credits: semaphore.NewWeighted(creditPool), patience: patience,
		posts: rate.NewLimiter(postsPerSecond, postsAtOnce), halted: make(chan struct{}),
		times: defaultTimes(), large: newLarges(c), alone: make(chan struct{}, aloneAtOnce), frames: newFrameCache(), pulse: newPulse(),
	}
	x.SetMaxGrant(c.MaxGrant)
	x.SetAllowance(c.Allowance)
	x.SetRequests(c.Requests)
	if err := resumeRotation(c); err != nil {
		return nil, err
	}
	if x.frozen, err = checkFrozen(c.Dir, c.Frozen); err != nil {
		return nil, err
	}
	if x.local, err = identity.Load(c.Dir, c.Now()); err != nil {
		return nil, err
	}
	if x.local.Role() != identity.Indexer {
		return nil, fmt.Errorf("the identity in %s is a %s's", c.Dir, x.local.Role())
	}
	if x.past, err = x.local.PastCards(); err != nil {
		return nil, err
	}
	if c.Certificate != nil {
		if err := x.local.UseFiles(*c.Certificate, c.Now()); err != nil {
			c.Log.Error("certificate", "error", err)
		}
	} else if _, err = x.local.Renew(c.Now(), nil); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	x.trust, err = identity.OpenTrust(filepath.Join(c.Dir, "trust"), identity.TrustOptions{
		Now: c.Now, Report: func(err error) { c.Log.Error("trust", "error", err) },
	})
	if err != nil {
		return nil, err
	}
	consumers, err := identity.OpenConsumers(filepath.Join(c.Dir, "consumers"), x.trust)
	if err != nil {
		return nil, err
	}
	x.feed = &hub{consumers: consumers, live: make(map[string]*subscription)}
	if x.decoder, err = newDecoder(c.Limits); err != nil {
		return nil, err
	}
	if err := x.openStore(); err != nil {
		x.decoder.Close()
		return nil, err
	}
	if !x.reads() {
		x.tender.start(x)
	}
	return x, nil
}

// openStore opens store and log, and finds the last segment number.
func (x *Indexer) openStore() (err error) {
	if x.store, err = x.cfg.openStore(); err != nil {
		return err
	}
	last, err := x.lastSegment()
	if err == nil {
		x.segment.Store(last)
		err = x.openLog()
	}
	if err == nil && !x.reads() {
		x.feed.id, err = openFeed(x.store, x.cfg.TrustStore)
	}
	if err != nil {
		return errors.Join(err, x.store.Close())
	}
	return nil
}

// reads reports whether the indexer is only read.
func (x *Indexer) reads() bool { return x.frozen != nil || x.cfg.ReadOnly }

// lastSegment is the highest number of a stored segment or file. Numbers are
// unique over all series, so that one that was drawn and never committed is
// harmless.
func (x *Indexer) lastSegment() (uint64, error) {
	recs, err := seriesOf(x.store, "")
	if err != nil {
		return 0, err
	}
	last, err := x.large.last()
	if err != nil {
		return 0, err
	}
	for _, rec := range recs {
		x.asks.note(rec)
		for _, space := range []byte("GHPQ") {
			lo := sidKey(space, rec.SID)
			for kv, err := range x.store.ScanReverse(lo, durable.PrefixEnd(lo)) {
				if err != nil {
					return 0, err
				}
				last = max(last, segmentNumber(kv.Key))
				break
			}
		}
	}
	return last, nil
}

// Close ends the sessions, then the log, then the store. A deletion that is
// under way goes on when the indexer is opened again.
func (x *Indexer) Close() error {
	x.store.Closing()
	x.tender.close()
	x.sessions.endAll(errShutdown)
	x.feed.endAll(errShutdown)
	x.readers.Wait()
	err := x.tlog.Close()
	for _, l := range x.ended {
		err = errors.Join(err, l.Close())
	}
	x.decoder.Close()
	closed := x.store.Close()
	if errors.Is(closed, durable.ErrFailed) {
		return closed // what else failed did so for that reason
	}
	return errors.Join(err, closed)
}

// Identity is the indexer's name.
func (x *Indexer) Identity() envelope.Name { return x.local.Name() }

// Wait returns when ctx ends (nil), or when the indexer cannot go on: then the
// process has to end, and the start after it decides by what is on disk.
func (x *Indexer) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		x.store.Closing() // handlers that wait for the disk are waited for
		return nil
	case <-x.store.Failed():
		return x.store.Err()
	case <-x.halted:
		return x.haltErr
	case <-x.tlog.Done():
		return x.tlog.Err()
	}
}
