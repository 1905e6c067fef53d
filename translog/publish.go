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
func (s signed) write(b *durable.Batch, prefix string) error {
	return errors.Join(b.Set([]byte(prefix+"o"), s.object.Raw), b.Set([]byte(prefix+"n"), s.note))
}

// read reads the two rows of a checkpoint and compares what they say.
func (l *Log) read(prefix string) (signed, error) {
	raw, err := l.store.Get([]byte(prefix + "o"))
	if err != nil {
		return signed{}, err
	}
	n, err := l.store.Get([]byte(prefix + "n"))
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
// waiting for the next interval; what Commit returned for is in it. Errors:
// ctx's, ErrClock, ErrClosed, ErrFailed.
func (l *Log) Publish(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case l.publish <- answer:
		return <-answer
	case <-l.done:
		return l.ended()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// publishNow publishes what was released if it is larger than what was
// published, or if that has become old. Errors are fatal, like those of a
// commit, but for ErrClock.
func (l *Log) publishNow() error {
	now, err := l.clock()
	if err != nil {
		l.cfg.Logger.Warn("nothing was published", "origin", l.cfg.Origin, "error", err)
		return err
	}
	grown := l.edge.size > l.chain.size
	if !grown && now.Sub(l.latest.object.IssuedAt) < l.cfg.Refresh {
		return nil
	}
	next, err := l.signPublished(l.head.tree, now)
	if err != nil {
		return fmt.Errorf("publish size %d: %w", l.edge.size, err)
	}
	b := l.store.NewBatch()
	defer b.Close() // a commit tells whether the batch is well
	err = next.write(b, rowLatest)
	if grown {
		err = errors.Join(err, b.Set(publishedKey(next.tree.Size), next.object.Raw))
	}
	// Durable, and then served.
	if err == nil {
		err = b.Commit()
	}
	if err != nil {
		return fmt.Errorf("publish size %d: %w", l.edge.size, err)
	}
	if grown {
		l.chain = chain{next.tree.Size, next.object.ID, l.chain.first}
	}
	l.latest, l.last = next, now
	l.published.Store(l.view(next))
	return nil
}

// signPublished signs the checkpoint that is published next. One of a new size
// names the first of the size before; a refresh repeats what it refreshes.
func (l *Log) signPublished(t Tree, now time.Time) (signed, error) {
	if t.Size > l.chain.size {
		return l.signCheckpoint(t, l.chain.first, now)
	}
	return l.signCheckpoint(t, l.chain.previous, now)
}
