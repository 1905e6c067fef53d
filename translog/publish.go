package translog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// signed is a checkpoint in both of its forms.
type signed struct {
	tree   Tree
	object *envelope.Object
	note   []byte
}

// write adds the two rows of a checkpoint to b.
func (s signed) write(b *durable.Batch, r rows, prefix string) error {
	return errors.Join(b.Set(r.key([]byte(prefix+"o")), s.object.Raw), b.Set(r.key([]byte(prefix+"n")), s.note))
}

// read reads the two rows of a checkpoint and compares what they say.
func (l *Log) read(prefix string) (signed, error) {
	raw, err := l.rows.Get([]byte(prefix + "o"))
	if err != nil {
		return signed{}, err
	}
	n, err := l.rows.Get([]byte(prefix + "n"))
	if err != nil {
		return signed{}, err
	}
	t, err := OpenNote(n, l.vkey)
	if err != nil {
		return signed{}, err
	}
	o, c, err := parseCheckpoint(raw)
	if err != nil {
		return signed{}, err
	}
	if (Tree{c.LogOrigin, c.TreeSize, c.Root}) != t || o.Sequence != t.Size {
		return signed{}, errors.New("artefact and note differ")
	}
	if !c.Continues.equal(l.continues) {
		return signed{}, errors.New("the artefact names another log than the one that this one continues")
	}
	return signed{t, o, n}, nil
}

func parseCheckpoint(raw []byte) (*envelope.Object, Checkpoint, error) {
	var c Checkpoint
	o, err := envelope.Parse(raw)
	if err == nil && o.Type != envelope.Checkpoint {
		err = fmt.Errorf("object_type %s", o.Type)
	}
	if err == nil {
		err = o.DecodeBody(&c)
	}
	return o, c, err
}

// chain is what the next published checkpoint goes on from.
type chain struct {
	size     uint64        // published last
	first    envelope.Hash // object_id of what was published first at that size
	previous envelope.Hash // the previous_hash of that
}

// Publish publishes what was released, if there is anything new, without
// waiting for the next interval; what Commit returned for is in it. With
// witnesses it waits for their cosignatures, within the time that they have.
// Errors: ctx's, ErrClock, ErrHeld, ErrClosed, ErrReadOnly, ErrFailed.
func (l *Log) Publish(ctx context.Context) error {
	if l.cfg.ReadOnly {
		return ErrReadOnly
	}
	answer := make(chan error, 1)
	select {
	case l.publish <- answer:
	case <-l.done:
		return l.ended()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer: // in any case, before run ends
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// publishNow begins the publication of what was released, if that is larger
// than what was published, or if that has become old, or lacks cosignatures. At
// most one is under way. The steps, of which none may be moved ahead:
//
//	sign the candidate, chained to what was published before
//	make it durable, if witnesses are asked and it is the first of its size
//	gather cosignatures, away from the writer: commits and receipts go on
//	make it durable as published, with the cosignatures
//	serve it
//
// Errors are fatal, like those of a commit.
func (l *Log) publishNow() error {
	if l.flight != nil {
		return nil
	}
	next, err := l.signDue()
	if err == nil && next != nil {
		if l.cfg.Witnesses != nil {
			l.gather(*next)
			return nil
		}
		err = l.serve(next.signed)
	}
	if err != nil {
		err = fmt.Errorf("publish size %d: %w", l.edge.size, err)
	}
	return l.landed(l.edge.size, err)
}

// signDue signs the checkpoint that is due, or takes up the one that was kept.
// nil means that none is due. The error is fatal unless it is ErrClock.
func (l *Log) signDue() (*candidate, error) {
	now, err := l.clock()
	if err != nil {
		l.cfg.Logger.Warn("nothing was published", "origin", l.cfg.Origin, "error", err)
		return nil, err
	}
	size, previous := l.edge.size, l.chain.previous
	switch {
	case size > l.chain.size && l.held.object != nil && l.held.tree.Size == size:
		return &candidate{signed: l.held}, nil
	case size > l.chain.size:
		previous = l.chain.first
	case now.Sub(l.latest.object.IssuedAt) >= l.cfg.Refresh:
	case l.alone && !now.Before(l.retryAt):
		note, err := l.note.note(l.latest.tree) // as it was before any cosignature
		return &candidate{signed{l.latest.tree, l.latest.object, note}, true}, err
	default:
		return nil, nil
	}
	return l.signCandidate(previous, now)
}

// signCandidate signs the checkpoint that is published next. One of a new size
// names the first of the size before, and is kept if witnesses are asked about
// it; a refresh repeats the name that it refreshes.
func (l *Log) signCandidate(previous envelope.Hash, now time.Time) (*candidate, error) {
	s, err := l.signCheckpoint(l.head.tree, previous, now)
	if err != nil {
		return nil, err
	}
	l.last = now
	if s.tree.Size > l.chain.size && l.cfg.Witnesses != nil {
		err = l.keep(s)
	}
	return &candidate{signed: s}, err
}

// serve publishes next: durable, and then served.
func (l *Log) serve(next signed) error {
	grown := next.tree.Size > l.chain.size
	b := l.store.NewBatch()
	defer b.Close() // a commit tells whether the batch is well
	err := next.write(b, l.rows, rowLatest)
	if grown {
		err = errors.Join(err, b.Set(l.rows.key(publishedKey(next.tree.Size)), next.object.Raw))
	}
	if grown && l.held.object != nil { // it is next, or superseded
		err = errors.Join(err, b.Delete(l.rows.key([]byte(rowCandidate+"o"))), b.Delete(l.rows.key([]byte(rowCandidate+"n"))))
	}
	if err == nil {
		err = b.Commit()
	}
	if err != nil {
		return err
	}
	if grown {
		l.chain = chain{next.tree.Size, next.object.ID, l.chain.first}
		l.held = signed{}
	}
	l.latest = next
	l.outcomes.published.Add(1)
	l.published.Store(l.view(next))
	return nil
}
