package translog

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// MaxEntry is the size of the largest entry, in octets: what a C2SP entry
// bundle can hold.
const MaxEntry = 65535

// Errors that callers branch on.
var (
	// ErrFailed: a commit failed, or may have failed. Whether what was being
	// committed is durable is known when the log has been opened again; until
	// then it refuses everything.
	ErrFailed = errors.New("the log has failed and must be opened anew")
	// ErrClosed: the log was closed before the proposal was committed.
	ErrClosed = errors.New("the log is closed")
	// ErrClock: the clock is behind what the log has already signed.
	ErrClock = errors.New("the clock is behind what this log has signed")
	// ErrRollback: the store is not the one that this log has written last.
	ErrRollback = errors.New("the store is not the newest of this log")
	// ErrIdentity: the store holds the log of somebody else.
	ErrIdentity = errors.New("the store holds another log")
	// ErrTooLarge: an entry would have more than MaxEntry octets.
	ErrTooLarge = errors.New("entry too large")
	// ErrGroup: another proposal broke the rules of Prepare, and the group in
	// which they stood was refused. Nothing of it remains; commit again.
	ErrGroup = errors.New("refused together with another proposal")
)

// Config is what a log needs. Fields without a default must be set.
type Config struct {
	// Store holds the rows of the log, behind the octet 'L'. Everything that is
	// committed together with an entry is in it too.
	Store *durable.Store
	// Dir is the folder of the high-water mark. It must not be restored
	// together with the store, and so lies outside the store's own folder.
	Dir string
	// Origin names the log and its note key, for example "example.com/log".
	Origin string
	// Indexer signs, under Authority, with Signer, whose key record has Epoch.
	Indexer, Authority envelope.Name
	Epoch              uint64
	Signer             *envelope.Signer
	// NoteKey signs checkpoint notes. A log never changes it.
	NoteKey ed25519.PrivateKey
	// Now is the clock. nil means time.Now.
	Now func() time.Time
	// Publish is the time between published checkpoints while the log grows.
	// 0 means 1 s.
	Publish time.Duration
	// Refresh is the age at which the published checkpoint of a quiet log is
	// signed anew. 0 means 1 h.
	Refresh time.Duration
	// Queue is how many proposals may wait for the writer; Commit blocks while
	// it is full. 0 means 1,024.
	Queue int
	// MaxGroup bounds the proposals of one commit; 0 means 1,024. MaxGroupBytes
	// bounds their rows, in octets, but for the proposal that reaches it; 0
	// means 8 MiB.
	MaxGroup, MaxGroupBytes int
	// TrustStore opens a store that has entries but no high-water mark beside
	// it. Set it once, after a restore to a new machine, when it is known that
	// nothing newer was ever shown: a store that is older forks the log.
	TrustStore bool
	// Logger is told what no caller is. nil means slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Publish = cmp.Or(c.Publish, time.Second)
	c.Refresh = cmp.Or(c.Refresh, time.Hour)
	c.Queue = cmp.Or(c.Queue, 1024)
	c.MaxGroup = cmp.Or(c.MaxGroup, 1024)
	c.MaxGroupBytes = cmp.Or(c.MaxGroupBytes, 8<<20)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// A Log appends entries and shows what it has released. It is safe for
// concurrent use.
type Log struct {
	cfg   Config
	store *durable.Store
	note  *noteSigner
	vkey  string

	queue   chan *request
	publish chan chan error // asks run to publish now
	stop    chan struct{}   // closed by Close
	done    chan struct{}   // closed by run when it ends
	err     error           // why run ended; set before done is closed

	closed   sync.Once
	closeErr error

	// mark, edge, head, latest, last and highest are owned by run; nothing else
	// reads or writes them.
	mark    *durable.Slots
	edge    *edge
	head    signed    // of the last commit
	latest  signed    // published last
	chain   chain     // of published checkpoints
	last    time.Time // issued_at of the last object
	highest time.Time // the latest time that the clock has shown

	// Readers load these; run alone stores them.
	released  atomic.Pointer[release]
	published atomic.Pointer[View]
}

// Open opens the log in cfg.Store, or begins it there, and starts its writer.
// Before anything is released it checks the store against itself and against
// the high-water mark. Errors: ErrIdentity, ErrRollback, ErrCorrupt.
func Open(cfg Config) (*Log, error) {
	cfg = cfg.withDefaults()
	if cfg.Store == nil || cfg.Signer == nil || cfg.Indexer == "" || cfg.Authority == "" {
		return nil, errors.New("open log: store, signer, indexer and authority must be set")
	}
	n, err := newNoteSigner(cfg.Origin, cfg.NoteKey)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{
		cfg: cfg, store: cfg.Store, note: n,
		queue:   make(chan *request, cfg.Queue),
		publish: make(chan chan error),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	if l.vkey, err = VerifierKey(cfg.Origin, cfg.NoteKey.Public().(ed25519.PublicKey)); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if err := l.start(); err != nil {
		if l.mark != nil {
			err = errors.Join(err, l.mark.Close())
		}
		return nil, fmt.Errorf("open log %s: %w", cfg.Origin, err)
	}
	go l.run()
	return l, nil
}

// A request is a proposal on its way through the writer.
type request struct {
	p     Proposal
	taken atomic.Bool // by the writer, or back by the caller
	done  chan error  // of capacity 1
}

// Commit hands p to the writer and returns nil once everything that p wrote is
// durable and released. An error of p's own Prepare comes back as it is, and
// nothing of p remains. If ctx ends while p still waits, p is withdrawn; once
// the writer has taken it the outcome is waited for, so that it is always
// known. Errors: those of Prepare, ctx's, ErrClock, ErrGroup, ErrClosed,
// ErrFailed.
func (l *Log) Commit(ctx context.Context, p Proposal) error {
	r := &request{p: p, done: make(chan error, 1)}
	select {
	case <-l.stop:
		return l.ended()
	default:
	}
	select {
	case l.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.stop:
		return l.ended()
	case <-l.done:
		return l.ended()
	}
	select {
	case err := <-r.done:
		return err
	case <-l.done:
	case <-ctx.Done():
		if r.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
	}
	select {
	case err := <-r.done:
		return err
	case <-l.done:
	}
	select {
	case err := <-r.done: // answered before the writer ended
		return err
	default:
		return l.ended()
	}
}

// ended says why no more is committed.
func (l *Log) ended() error {
	select {
	case <-l.done:
		if l.err != nil {
			return l.err
		}
	default:
	}
	return ErrClosed
}

// Done is closed when the writer has ended: after Close, or because it failed.
func (l *Log) Done() <-chan struct{} { return l.done }

// Err is nil while the writer runs and after a clean Close, else ErrFailed with
// its cause.
func (l *Log) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// Close ends the writer behind the group that it is committing, publishes what
// was released, and returns Err. Proposals that still wait are refused with
// ErrClosed. The log's views can be read until the Store is closed.
func (l *Log) Close() error {
	l.closed.Do(func() {
		close(l.stop)
		<-l.done
		l.released.Load().unref()
		l.closeErr = errors.Join(l.err, l.mark.Close())
	})
	return l.closeErr
}

// Origin is the name of the log.
func (l *Log) Origin() string { return l.cfg.Origin }

// VerifierKey is the key by which the log's notes are verified.
func (l *Log) VerifierKey() string { return l.vkey }
