package translog

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Successor is the log in which another goes on.
type Successor struct {
	Origin  string
	NoteKey ed25519.PrivateKey // new: no log shares its key with another
}

// Rotate ends the log of c for good and begins next in the same store, whose
// every signed checkpoint then says how the old one ended. Nobody else may have
// either of them open. The steps, each durable before the next:
//
//	the final checkpoint of the old log is published
//	one commit begins the new log; from it on the old one has ended
//	the mark of the old log says so too, outside the store
//
// After a crash the same call goes on where it stopped, and c.NoteKey may be
// gone by then. If c is ReadOnly, as that of a frozen log is, nothing more is
// signed under the old log: it ends with its last commit, published or not.
func Rotate(c Config, next Successor) (Continues, error) {
	c = c.withDefaults()
	n, err := newNoteSigner(next.Origin, next.NoteKey)
	if err != nil {
		return Continues{}, fmt.Errorf("rotate to %.80q: %w", next.Origin, err)
	}
	vkey, err := VerifierKey(next.Origin, next.NoteKey.Public().(ed25519.PublicKey))
	if err != nil {
		return Continues{}, fmt.Errorf("rotate to %.80q: %w", next.Origin, err)
	}
	all, err := identities(c.Store)
	if err != nil {
		return Continues{}, err
	}
	if last := len(all) - 1; last < 1 || all[last].Vkey != vkey {
		if err := beginNext(c, next, n, vkey, all); err != nil {
			return Continues{}, fmt.Errorf("rotate from %s to %s: %w", c.Origin, next.Origin, err)
		}
		if all, err = identities(c.Store); err != nil {
			return Continues{}, err
		}
	}
	ended, begun := all[len(all)-2], all[len(all)-1]
	end := *begun.Continues
	return end, endMark(c.Store, c.Dir, ended.Vkey, mark{size: end.Size, root: end.Root, highest: c.Now().UTC()})
}

// beginNext makes the first two steps of Rotate. all are the store's logs.
func beginNext(c Config, next Successor, n *noteSigner, vkey string, all []identity) error {
	for _, id := range all {
		if id.Origin == next.Origin || id.Vkey == vkey {
			return fmt.Errorf("origin %s was used before; a new log has a new origin and a new key", next.Origin)
		}
	}
	if len(all) >= maxLogs {
		return fmt.Errorf("the store holds %d logs, which is the most; begin a new identity", len(all))
	}
	if c.NoteKey.Equal(next.NoteKey) {
		return errors.New("the new log has the key of the old one; give it its own")
	}
	old, err := Open(c)
	if err != nil {
		return err
	}
	if !c.ReadOnly {
		err = old.Publish(context.Background())
	}
	if err := errors.Join(err, old.Close()); err != nil {
		return err
	}
	c.Origin, c.NoteKey = next.Origin, next.NoteKey
	l := &Log{
		cfg: c, store: c.Store, rows: rows{c.Store, old.rows.number + 1}, note: n, vkey: vkey,
		continues: &Continues{Origin: old.head.tree.Origin, Root: old.head.tree.Root, Size: old.head.tree.Size},
		last:      old.last, highest: old.highest, // time goes on too
	}
	return l.begin()
}

// Ended opens the logs of a store that have ended, the first one first, to be
// read for as long as the store is open. Each must be what the log after it
// says that it continues. logger may be nil: slog.Default().
func Ended(store *durable.Store, logger *slog.Logger) ([]*Log, error) {
	all, err := identities(store)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var ended []*Log
	for i, id := range all[:len(all)-1] {
		l, err := openEnded(store, logger, uint32(i), id)
		if err != nil {
			return nil, fmt.Errorf("open log %s, which has ended: %w", id.Origin, err)
		}
		if c := all[i+1].Continues; c.Tree() != l.Released().Tree {
			return nil, fmt.Errorf("%w: log %s ends with a tree of %d, and %s continues one of %d under %s",
				ErrCorrupt, id.Origin, l.Released().Tree.Size, all[i+1].Origin, c.Size, c.Root)
		}
		ended = append(ended, l)
	}
	return ended, nil
}

func openEnded(store *durable.Store, logger *slog.Logger, number uint32, id identity) (*Log, error) {
	l := &Log{
		cfg: Config{
			Store: store, Origin: id.Origin, Indexer: id.Indexer, Authority: id.Authority, ReadOnly: true, Logger: logger,
		}.withDefaults(),
		store: store, rows: rows{store, number}, vkey: id.Vkey, continues: id.Continues,
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if err := l.load(); err != nil {
		return nil, err
	}
	t := l.edge.tree(l.rows)
	if err := l.loadPublished(t); err != nil {
		return nil, err
	}
	// A frozen log may have ended with a commit that was never published; its
	// checkpoint is in receipts, and is shown now.
	if l.head.tree.Size > l.latest.tree.Size {
		l.latest = l.head
	}
	l.published.Store(l.view(l.latest))
	// No snapshot: it would hold back the whole store, and these rows are final.
	l.released.Store(&release{view: *l.view(l.head)})
	go l.idle()
	return l, nil
}

// idle is run, of a log that is only read.
func (l *Log) idle() {
	<-l.stop
	close(l.done)
}

// OriginOf is the origin that a checkpoint note names, which says by which key
// it has to be verified. Nothing about it is verified here.
func OriginOf(note []byte) string {
	origin, _, _ := bytes.Cut(note[:min(len(note), maxNote)], []byte("\n"))
	return string(origin)
}

// Lineage is the last signed checkpoints of the logs that lie between this one
// and that of the given origin, which has ended before it, the newest first:
// each says how the log before it ended, as every checkpoint of this log does.
// ended are the store's, by Ended.
func (l *Log) Lineage(ended []*Log, origin string) ([]*envelope.Object, error) {
	var between []*envelope.Object
	for at := l; at.continues != nil && int(at.rows.number) <= len(ended); {
		if at.continues.Origin == origin {
			return between, nil
		}
		at = ended[at.rows.number-1]
		between = append(between, at.Released().Checkpoint)
	}
	return nil, fmt.Errorf("log %s does not go on from %.80q", l.cfg.Origin, origin)
}
