package indexer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// frozenFile holds the note that proves that this log has two histories. As
// long as it is there nothing is signed.
const frozenFile = "FROZEN.note"

// ErrFrozen is returned when a checkpoint signed by this very log's key shows
// entries that its store does not hold. Going on would fork the log.
var ErrFrozen = errors.New("this log was shown a checkpoint of its own key that its store does not hold: the store is an older copy, or the key is used elsewhere; restore the newest store, or begin a new log, and keep " + frozenFile + " as proof")

// checkFrozen refuses to open an indexer that was frozen.
func checkFrozen(dir string) error {
	_, err := os.Stat(filepath.Join(dir, frozenFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return ErrFrozen
}

// checkOwnNote compares a note by this log's own key, which a peer kept, with
// the tree. The proof is durable before the indexer stops.
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
	x.log.Error("log frozen", "shown_size", seen.Size, "own_size", view.Tree.Size)
	err := durable.WriteFile(filepath.Join(x.cfg.Dir, frozenFile), note, 0o600)
	x.halt(errors.Join(ErrFrozen, err))
	return refuse(grants.ErrState, "the log is frozen")
}

// halt makes Failed report err.
func (x *Indexer) halt(err error) {
	x.haltOnce.Do(func() {
		x.haltErr = fmt.Errorf("halted: %w", err)
		close(x.halted)
	})
}
