package indexer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// The files that keep a log frozen. As long as one of them is there nothing is
// signed.
const (
	frozenNote = "FROZEN.note" // the proof that this log has two histories
	frozenWord = "FROZEN.json" // the operator's own word
)

// ErrFrozen is returned when the log signs nothing more: its operator froze it,
// or a checkpoint by its own key was shown that its store does not hold, so that
// going on would fork it.
var ErrFrozen = errors.New("this log is frozen")

// A Frozen says why a log signs nothing more.
type Frozen struct {
	Reason string        `json:"reason"`
	At     envelope.Time `json:"at"`
	File   string        `json:"file"` // that keeps it so
}

// contradicted is the reason of a log that was shown its own note.
const contradicted = "it was shown a checkpoint of its own key that its store does not hold: the store is an older copy, or the key is used elsewhere"

// ReadFrozen reads why the log in dir is frozen; nil if it is not.
func ReadFrozen(dir string) (*Frozen, error) {
	info, err := os.Stat(filepath.Join(dir, frozenNote))
	if err == nil {
		return &Frozen{Reason: contradicted, At: envelope.At(info.ModTime()), File: frozenNote}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, frozenWord))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f := &Frozen{File: frozenWord}
	if err == nil && json.Unmarshal(b, f) != nil {
		f.Reason = "what " + frozenWord + " says cannot be read" // it freezes all the same
	}
	return f, err
}

// err is ErrFrozen with the reason and what to do.
func (f *Frozen) err() error {
	next := "remove " + f.File + " if the reason is gone, or go on in a new log with \"log rotate\""
	if f.File == frozenNote {
		next = "restore the newest store, or go on in a new log with \"log rotate\", and keep " + f.File + " as proof"
	}
	return fmt.Errorf("%w: %s; %s; to have it read meanwhile, start it with \"run --frozen\"", ErrFrozen, f.Reason, next)
}

// checkFrozen compares what the files say with what the caller wants.
func checkFrozen(dir string, want bool) (*Frozen, error) {
	f, err := ReadFrozen(dir)
	switch {
	case err != nil:
		return nil, err
	case f != nil && !want:
		return nil, f.err()
	case f == nil && want:
		return nil, errors.New("this log is not frozen; start it without --frozen")
	}
	return f, nil
}

// maxReason bounds the operator's word, in octets.
const maxReason = 1000

// Freeze makes the log of the indexer in c.Dir sign nothing more, until the file
// is removed. No Indexer may be open; a running one has its own Freeze.
func Freeze(c Config, reason string) error {
	c = c.withDefaults()
	store, err := c.openStore() // its lock shows that none runs
	if err != nil {
		return err
	}
	return errors.Join(writeFrozen(c.Dir, reason, c.Now()), store.Close())
}

// writeFrozen is durable when it returns.
func writeFrozen(dir, reason string, now time.Time) error {
	if reason == "" || len(reason) > maxReason {
		return fmt.Errorf("a reason of %d octets, want 1 to %d", len(reason), maxReason)
	}
	f := Frozen{Reason: reason, At: envelope.At(now), File: frozenWord}
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, frozenWord), append(b, '\n'), 0o600)
}

// Freeze ends all signing, writes down why, and makes Wait return. When it
// returns nothing is signed any more.
func (x *Indexer) Freeze(reason string) error {
	if err := writeFrozen(x.cfg.Dir, reason, x.cfg.Now()); err != nil {
		return err
	}
	x.tlog.Freeze()
	x.log.Error("log frozen", "reason", reason)
	f, err := ReadFrozen(x.cfg.Dir)
	if err != nil {
		return err
	}
	x.halt(f.err())
	return nil
}

// checkOwnNote compares a note by this log's own key, which a peer kept, with
// the tree. If it shows another history, nothing more is signed, and the proof
// is durable before the indexer stops.
func (x *Indexer) checkOwnNote(seen translog.Tree, note []byte) error {
	view := x.tlog.Released()
	if seen.Size <= view.Tree.Size {
		path, err := view.Consistency(seen.Size)
		if err != nil {
			return err
		}
		if translog.VerifyConsistency(seen.Size, view.Tree.Size, path, seen.Root, view.Tree.Root) == nil {
			return nil
		}
	}
	x.tlog.Freeze()
	x.log.Error("log frozen", "shown_size", seen.Size, "own_size", view.Tree.Size)
	err := durable.WriteFile(filepath.Join(x.cfg.Dir, frozenNote), note, 0o600)
	x.halt(errors.Join((&Frozen{Reason: contradicted, File: frozenNote}).err(), err))
	return refuse(grants.ErrState, "the log is frozen")
}

// halt makes Wait return err.
func (x *Indexer) halt(err error) {
	x.haltOnce.Do(func() {
		x.haltErr = fmt.Errorf("halted: %w", err)
		close(x.halted)
	})
}
