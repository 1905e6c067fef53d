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
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
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
	// ErrEnded: the log was rotated out, and signs nothing more.
	ErrEnded = errors.New("this log has ended")
	// ErrReadOnly: the log was opened to be read, or was frozen.
	ErrReadOnly = errors.New("the log is there to be read, and signs nothing")
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
	// Queue is how many proposals may wait for the writer, and QueueBytes how
	// much memory they may hold together (see Weigher), beside the group that is
	// being synced and the next. Commit refuses what is more. 0 means 4,096 and
	// 256 MiB.
	Queue      int
	QueueBytes int64
	// MaxGroup bounds the proposals of one commit; 0 means 1,024. MaxGroupBytes
	// bounds their rows, in octets, but for the proposal that reaches it; 0
	// means 4 MiB.
	MaxGroup, MaxGroupBytes int
	// TrustStore opens a store that has entries but no high-water mark beside
	// it. Set it once, after a restore to a new machine, when it is known that
	// nothing newer was ever shown: a store that is older forks the log.
	TrustStore bool
	// ReadOnly opens a log that is there to be read, such as one that was
	// frozen: it signs nothing, and nothing is written, not even the mark.
	ReadOnly bool
	// Witnesses are asked to cosign what is published; nil: nobody is. They
	// never delay a receipt.
	Witnesses *witness.Group
	// FailClosed holds a checkpoint back until the quorum of Witnesses has
	// cosigned it. Otherwise it is published without once their time is over.
	FailClosed bool
	// Logger is told what no caller is. nil means slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Publish = cmp.Or(c.Publish, time.Second)
	c.Refresh = cmp.Or(c.Refresh, time.Hour)
	c.Queue = cmp.Or(c.Queue, 4096)
	c.QueueBytes = cmp.Or(c.QueueBytes, 256<<20)
	c.MaxGroup = cmp.Or(c.MaxGroup, 1024)
	c.MaxGroupBytes = cmp.Or(c.MaxGroupBytes, 4<<20)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// A Log appends entries and shows what it has released. It is safe for
// concurrent use.
type Log struct {
	cfg   Config
	store *durable.Store
	rows  rows // its own, in store
	note  *noteSigner
	vkey  string
	// continues is the end of the log before, nil for the first of a store. It
	// does not change once the log is open.
	continues *Continues

	queue   chan *request
	urgent  chan *request      // taken before those of queue
	publish chan chan error    // asks run to publish now
	freeze  chan chan struct{} // asks run to sign nothing more
	// cosigned brings run what its one gathering goroutine has; of capacity 1.
	cosigned chan witness.Gathering
	stop     chan struct{} // closed by Close
	done     chan struct{} // closed by run when it ends
	err      error         // why run ended; set before done is closed

	closed   sync.Once
	closeErr error

	queuedBytes atomic.Int64 // the weight of what waits in queue and urgent
	answered    sync.Pool    // of requests, for the next ones

	// mark, edge, head, way, took, latest, last and highest are owned by run; nothing
	// else reads or writes them, but for mark and head while a group is on its way, which
	// are that group's then, one after the other.
	mark    *durable.Slots
	edge    *edge
	head    signed    // of the last commit
	way     []*group  // on their way to the disk, in their order; some may have arrived
	took    [2]int    // how many proposals the last two groups took
	latest  signed    // published last
	chain   chain     // of published checkpoints
	last    time.Time // issued_at of the last object
	highest time.Time // the latest time that the clock has shown

	outing

	// Readers load these; run stores them, and commit what was released.
	released  atomic.Pointer[release]
	published atomic.Pointer[View]
	counters  *counters
	outcomes  publications
}

// Open opens the log in cfg.Store, or begins it there, and starts its writer.
// Before anything is released it checks the store against itself and against
// the high-water mark. Errors: ErrIdentity, ErrEnded, ErrRollback, ErrCorrupt.
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
		cfg: cfg, store: cfg.Store, rows: rows{store: cfg.Store}, note: n,
		queue:   make(chan *request, cfg.Queue),
		urgent:  make(chan *request, urgentPlaces),
		freeze:  make(chan chan struct{}),
		publish: make(chan chan error), cosigned: make(chan witness.Gathering, 1),
		stop: make(chan struct{}),
		done: make(chan struct{}),

		counters: newCounters(),
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
	if cfg.ReadOnly {
		go l.idle()
	} else {
		go l.run()
	}
	return l, nil
}

// A request is a proposal on its way through the writer.
type request struct {
	p      Proposal
	weight int64       // octets of memory
	taken  atomic.Bool // by the writer, or back by the caller
	done   chan error  // of capacity 1
}

// request takes one for p from those that were answered.
func (l *Log) request(p Proposal) *request {
	r, ok := l.answered.Get().(*request)
	if !ok {
		r = &request{done: make(chan error, 1)}
	}
	r.p = p
	return r
}

// giveBack is for the caller, to whom it belongs once it was answered.
func (l *Log) giveBack(r *request) {
	r.p = nil
	r.taken.Store(false)
	l.answered.Put(r)
}

// Commit hands p to the writer and returns nil once everything that p wrote is
// durable and released. An error of p's own Prepare comes back as it is, and
// nothing of p remains. If ctx ends while p still waits, p is withdrawn; once
// the writer has taken it the outcome is waited for, so that it is always
// known. It does not wait for a place in a queue that is full. Errors: those of
// Prepare, ctx's, ErrOverloaded, ErrClock, ErrGroup, ErrClosed, ErrFailed.
func (l *Log) Commit(ctx context.Context, p Proposal) error {
	return l.commit(ctx, p, l.queue)
}

func (l *Log) commit(ctx context.Context, p Proposal, queue chan *request) error {
	if l.cfg.ReadOnly {
		return ErrReadOnly
	}
	if isClosed(l.stop) || isClosed(l.done) {
		return l.ended()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := l.request(p)
	if err := l.enqueue(r, queue); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		l.giveBack(r)
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

// isClosed reports whether c, on which nothing is sent, is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ended says why no more is committed.
func (l *Log) ended() error {
	if isClosed(l.done) && l.err != nil {
		return l.err
	}
	return ErrClosed
}

// Done is closed when the writer has ended: after Close, or because it failed.
func (l *Log) Done() <-chan struct{} { return l.done }

// Err is nil while the writer runs and after a clean Close, else ErrFailed with
// its cause.
func (l *Log) Err() error {
	if isClosed(l.done) {
		return l.err
	}
	return nil
}

// Close ends the writer behind the group that it is committing, publishes what
// was released, and returns Err. Proposals that still wait are refused with
// ErrClosed. The log's views can be read until the Store is closed.
func (l *Log) Close() error {
	l.closed.Do(func() {
		close(l.stop)
		<-l.done
		l.released.Load().unref()
		l.closeErr = l.err
		if l.mark != nil { // a log that has ended was opened without
			l.closeErr = errors.Join(l.err, l.mark.Close())
		}
	})
	return l.closeErr
}

// Origin is the name of the log.
func (l *Log) Origin() string { return l.cfg.Origin }

// VerifierKey is the key by which the log's notes are verified.
func (l *Log) VerifierKey() string { return l.vkey }

// Number is that of the log in its store, see Tx.Log.
func (l *Log) Number() uint32 { return l.rows.number }

// Continues is the end of the log that this one goes on from, nil for the first
// of a store. Every signed checkpoint of this log says the same.
func (l *Log) Continues() *Continues { return l.continues }
