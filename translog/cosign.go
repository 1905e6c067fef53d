package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// ErrHeld: the witnesses' quorum has not cosigned a checkpoint, and it is held
// back. What was published before is still served.
var ErrHeld = errors.New("the quorum of witnesses has not cosigned the checkpoint")

// retryAlone is how long a quiet log shows a checkpoint without its quorum
// before it asks for the cosignatures again.
const retryAlone = time.Minute

// A candidate is a checkpoint on its way to be published. One that is the first
// of its size is durable before anybody is asked about it, and is never signed
// anew: after a crash, or while it is held back, the same octets are taken up
// again, unless the log has grown and a larger one has superseded it.
type candidate struct {
	signed      // the note without cosignatures
	again  bool // it is served already, and lacks cosignatures
}

// An outing is everything about witnesses that belongs to run; nothing else
// reads or writes it.
type outing struct {
	held    signed             // the durable candidate; no object: none
	flight  *candidate         // for which cosignatures are being gathered; nil: none
	ground  context.CancelFunc // ends that gathering early
	alone   bool               // what is served lacks its quorum
	retryAt time.Time          // when to ask again, if alone
	warned  bool               // that the quorum is missing; once is enough
	waiters []waiter
}

// A waiter is a call of Publish, for the tree of a size.
type waiter struct {
	size   uint64
	answer chan error // of capacity 1
}

// Publications counts what became of checkpoints that were due.
type Publications struct {
	Published uint64 // served, with or without cosignatures
	Alone     uint64 // of them, without the quorum (fail-open)
	Held      uint64 // attempts that ended without the quorum (fail-closed)
	Alarms    uint64 // answers of witnesses that contradict the log
	Clock     uint64 // times that nothing could be signed, since the clock is behind
}

type publications struct{ published, alone, held, alarms, clock atomic.Uint64 }

// Publications reads the counters; they begin at zero when the log is opened.
func (l *Log) Publications() Publications {
	c := &l.outcomes
	return Publications{c.published.Load(), c.alone.Load(), c.held.Load(), c.alarms.Load(), c.clock.Load()}
}

// keep makes the first candidate of a size durable.
func (l *Log) keep(s signed) error {
	b := l.store.NewBatch()
	defer b.Close() // a commit tells whether the batch is well
	if err := s.write(b, l.rows, rowCandidate); err != nil {
		return err
	}
	if err := b.Commit(); err != nil {
		return err
	}
	l.held = s
	return nil
}

// loadCandidate reads the candidate that a crash or a missing quorum has left.
func (l *Log) loadCandidate(t tree) error {
	s, err := l.read(rowCandidate)
	if errors.Is(err, durable.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: the checkpoint held back: %w", ErrCorrupt, err)
	}
	if s.tree.Size <= l.chain.size || s.tree.Size > t.size {
		return fmt.Errorf("%w: held back is size %d, published %d of %d", ErrCorrupt, s.tree.Size, l.chain.size, t.size)
	}
	root, err := t.rootAt(s.tree.Size)
	_, c, bad := parseCheckpoint(s.object.Raw)
	if err := errors.Join(err, bad); err != nil || root != s.tree.Root || c.PreviousHash != l.chain.first {
		return errors.Join(fmt.Errorf("%w: the checkpoint held back, of size %d, is not of this log", ErrCorrupt, s.tree.Size), err)
	}
	l.held = s
	if at := s.object.IssuedAt; at.After(l.last) {
		l.last = at
	}
	return nil
}

// gather sends out a goroutine for the cosignatures of next. It answers in
// l.cosigned within the Group's time-out, and run waits for it there.
func (l *Log) gather(next candidate) {
	ctx, cancel := context.WithCancel(context.Background())
	l.flight, l.ground = &next, cancel
	view := l.view(next.signed)
	go func() {
		l.cosigned <- l.cfg.Witnesses.Gather(ctx, witness.Submission{
			Note: next.note, Size: next.tree.Size, Prove: view.Consistency,
		})
	}()
}

// land ends the publication for which r was gathered. Errors are fatal.
func (l *Log) land(r witness.Gathering) error {
	next := *l.flight
	l.ground()
	l.flight, l.ground = nil, nil
	if err := l.heed(r.Failures); err != nil {
		return l.landed(next.tree.Size, err)
	}
	next.note = append(bytes.Clone(next.note), r.Lines()...)
	var err error
	switch {
	case !r.Met && next.again:
		l.retryAt = l.highest.Add(retryAlone)
	case !r.Met && l.cfg.FailClosed:
		l.outcomes.held.Add(1)
		l.warn("a checkpoint is held back: the quorum of witnesses is missing", next.tree.Size, r)
		return l.landed(next.tree.Size, ErrHeld)
	default:
		if err = l.serve(next.signed); err == nil {
			l.servedWith(r)
		}
	}
	return l.landed(next.tree.Size, err)
}

// servedWith notes with what quorum the checkpoint is served.
func (l *Log) servedWith(r witness.Gathering) {
	l.alone = !r.Met
	if r.Met {
		l.warned = false
		return
	}
	l.outcomes.alone.Add(1)
	l.retryAt = l.highest.Add(retryAlone)
	l.warn("a checkpoint was published without its quorum of witnesses", l.latest.tree.Size, r)
}

// warn tells that the quorum is missing, until it has been there again.
func (l *Log) warn(what string, size uint64, r witness.Gathering) {
	if l.warned {
		return
	}
	l.warned = true
	var failures []error
	for _, f := range r.Failures {
		failures = append(failures, f)
	}
	l.cfg.Logger.Warn(what, "origin", l.cfg.Origin, "size", size, "served", l.latest.tree.Size,
		"cosignatures", len(r.Cosignatures), "error", errors.Join(failures...))
}

// landed answers who waited for the attempt at size, and begins another if
// somebody waits for more. It returns err if that is fatal.
func (l *Log) landed(size uint64, err error) error {
	l.waiters = slices.DeleteFunc(l.waiters, func(w waiter) bool {
		done := w.size <= size || fatal(err) != nil
		if done {
			w.answer <- err
		}
		return done
	})
	if fatal(err) == nil && len(l.waiters) > 0 {
		return l.publishNow()
	}
	return fatal(err)
}

// heed looks for contradictions. One by a witness that the quorum may depend
// on, in its first answer since the log was opened, is what a start would have
// refused had it been there to answer; later ones are alarms.
func (l *Log) heed(failures []*witness.Failure) error {
	for _, f := range failures {
		if !f.Alarm() || f.Reason == witness.Ahead && f.Size <= l.edge.size {
			continue
		}
		if f.First && f.Counts {
			return l.contradicted(f)
		}
		l.outcomes.alarms.Add(1)
		l.cfg.Logger.Error("a witness contradicts this log: it was rolled back or has forked, or the witness errs",
			"origin", l.cfg.Origin, "size", l.edge.size, "witness", f.Witness, "error", f)
	}
	return nil
}

func (l *Log) contradicted(f *witness.Failure) error {
	return fmt.Errorf("%w: %w. Put the newest copy of the store back. If it is lost, begin a log under a new origin: "+
		"to sign under this one again would fork it. If it is certain that the witness errs, take it out of the policy", ErrRollback, f)
}

// askWitnesses asks every witness, before anything is signed, whether it has
// seen more of this log than t, or something else. One that does not answer is
// heeded when it does.
func (l *Log) askWitnesses(t Tree, prove func(from uint64) ([][32]byte, error)) error {
	if l.cfg.Witnesses == nil || l.cfg.ReadOnly {
		return nil
	}
	if !l.cfg.Witnesses.Policy().Covers(l.vkey) {
		return fmt.Errorf("the witness policy is for other logs: its log lines lack %s", l.vkey)
	}
	note, err := l.note.note(t) // the same octets as were signed for this tree before
	if err != nil {
		return err
	}
	r := l.cfg.Witnesses.Gather(context.Background(), witness.Submission{Note: note, Size: t.Size, Prove: prove, Everyone: true})
	for _, f := range r.Failures {
		if f.Alarm() && f.Counts {
			return l.contradicted(f)
		}
		l.cfg.Logger.Warn("a witness could not be asked what it has seen of this log", "origin", l.cfg.Origin, "size", t.Size, "error", f)
	}
	return nil
}

// askAtStart is askWitnesses about a log that is there already.
func (l *Log) askAtStart(t tree) error {
	if l.cfg.Witnesses == nil {
		return nil
	}
	all, err := l.cfg.Witnesses.Policy().Cosignatures(l.latest.note, l.cfg.Now())
	l.alone = err != nil || !l.cfg.Witnesses.Policy().Met(all)
	return l.askWitnesses(l.head.tree, func(from uint64) ([][32]byte, error) { return t.consistency(from, t.size) })
}

// publishLast publishes what was released when the log is closed. It takes no
// longer than one time-out of the witnesses.
func (l *Log) publishLast() error {
	if l.flight != nil {
		l.ground()
		if r := <-l.cosigned; r.Met {
			if err := l.land(r); err != nil {
				return err
			}
		} else {
			l.flight, l.ground = nil, nil // taken up again below, or superseded
		}
	}
	if err := l.publishNow(); err != nil || l.flight == nil {
		return err
	}
	return l.land(<-l.cosigned)
}

// abandon waits for what gathers, before run ends or the log is frozen, and
// leaves no caller of Publish waiting.
func (l *Log) abandon(err error) {
	if l.flight != nil {
		l.ground()
		<-l.cosigned
		l.flight, l.ground = nil, nil
	}
	for _, w := range l.waiters {
		w.answer <- err
	}
	l.waiters = nil
}
