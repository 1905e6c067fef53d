package indexer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// openLog opens the log that the card names, and those that have ended.
func (x *Indexer) openLog() (err error) {
	c := logConfig(x.cfg, x.store, x.local)
	c.ReadOnly, c.Logger = x.reads(), x.log
	if x.tlog, err = translog.Open(c); err != nil {
		return err
	}
	if x.ended, err = translog.Ended(x.store, x.log); err != nil {
		_ = x.tlog.Close() // the error that stops the start is told
	}
	return err
}

// logs are all logs of this indexer, the first one first; the last one lives.
func (x *Indexer) logs() []*translog.Log { return append(x.ended[:len(x.ended):len(x.ended)], x.tlog) }

// logOf is the log that a note is of, by the origin that it names.
func (x *Indexer) logOf(note []byte) (*translog.Log, error) {
	origin := translog.OriginOf(note)
	for _, l := range x.logs() {
		if l.Origin() == origin {
			return l, nil
		}
	}
	return nil, fmt.Errorf("log %.80q is none of this indexer", origin)
}

// logPath is where the public side serves a log, below its root: named by the
// log's key, so that the address is that log's for ever.
func logPath(vkey string) string { return "/logs/" + shortHash(vkey) }

func shortHash(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:8])
}

// continued answers a publisher that has not met this log yet, and shows a note
// of one that has ended: the proof that the old log ended as an extension of
// what was seen, and the checkpoints that lead from its end to the log of today.
func (x *Indexer) continued(view translog.View, old *translog.Log, note []byte) (consistency, lineage [][]byte, err error) {
	seen, err := translog.OpenNote(note, old.VerifierKey())
	if err != nil {
		return nil, nil, refuse(grants.ErrMalformed, "checkpoint note: %v", err)
	}
	end := old.Released()
	var path [][32]byte
	if seen.Size <= end.Tree.Size {
		if path, err = end.Consistency(seen.Size); err != nil {
			return nil, nil, err
		}
	}
	if seen.Size > end.Tree.Size || translog.VerifyConsistency(seen.Size, end.Tree.Size, path, seen.Root, end.Tree.Root) != nil {
		x.log.Error("a checkpoint of a log that has ended contradicts its end", "origin", seen.Origin, "shown_size", seen.Size, "own_size", end.Tree.Size)
		return nil, nil, refuse(grants.ErrState, "log %s ended with %d entries under %s, which the checkpoint of size %d contradicts; keep it as proof",
			seen.Origin, end.Tree.Size, envelope.Hash(end.Tree.Root), seen.Size)
	}
	between, err := x.tlog.Lineage(x.ended, seen.Origin)
	if err != nil {
		return nil, nil, err
	}
	lineage = [][]byte{view.Checkpoint.Raw}
	for _, o := range between {
		lineage = append(lineage, o.Raw)
	}
	return rawHashes(path), lineage, nil
}
