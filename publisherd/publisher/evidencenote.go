package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// How long the log is asked for a checkpoint that witnesses have cosigned. What
// was receipted is published within seconds.
const (
	cosignPatience = 5 * time.Second
	cosignInterval = 200 * time.Millisecond
)

// Cosign gives an evidence file the checkpoint that the indexer's log publishes
// now, if witnesses have cosigned it, with the proof that it continues the
// receipt's: whoever trusts those witnesses needs nobody else then. The log is
// asked at its public URL, without a certificate. The file comes back as it is
// if nobody has cosigned, and, with an error that says why, if the log cannot
// be asked. If the log contradicts the receipt the error is ErrSplitView: both
// notes are kept in the folder alarms then.
func Cosign(ctx context.Context, dir string, raw []byte, now time.Time) ([]byte, error) {
	ev, err := evaluate.Parse(raw)
	if err != nil {
		return raw, err
	}
	entry, err := envelope.Parse(ev.Entry)
	if err != nil {
		return raw, err
	}
	trust, err := OpenTrust(dir)
	if err != nil {
		return raw, err
	}
	peer, ok := trust.Lookup(entry.Signer)
	if !ok || peer.Card.Log == nil {
		return raw, fmt.Errorf("%s is not trusted any more, and so is the URL of its log", entry.Signer)
	}
	log, err := remote.New(peer.Card.Log.URL, peer.Card.Log.VKey, remote.Options{Timeout: cosignPatience, Tries: 1})
	if err != nil {
		return raw, err
	}
	defer log.Close()
	old, err := translog.OpenNote([]byte(ev.Note), peer.Card.Log.VKey)
	if err != nil {
		return raw, errors.New("the log was rotated since; this file is under the checkpoints of the one before")
	}
	tree, note, err := log.CheckpointOf(ctx, old.Size, cosignPatience, cosignInterval)
	switch {
	case err != nil:
		return raw, err
	case tree.Size < old.Size:
		return raw, fmt.Errorf("the log publishes %d entries, and has not come to the %d of the receipt yet", tree.Size, old.Size)
	}
	path, err := log.Consistency(ctx, old.Size, tree.Size)
	if errors.Is(err, remote.ErrUnavailable) {
		return raw, err
	}
	proof := translog.ConsistencyProof{From: old.Size, Hashes: wirePath(path), To: tree.Size}
	if err == nil {
		err = proof.Verify(old, tree)
	}
	if err != nil {
		err = fmt.Errorf("%w: the log at %s contradicts the receipt: %w", ErrSplitView, log.URL(), err)
		return raw, errors.Join(err, keepSplit(dir, peer, []byte(ev.Note), note, now))
	}
	if bytes.Count(note, []byte("\n— ")) < 2 {
		return raw, nil // signed by the log alone: the receipt's own note says as much
	}
	ev.Note, ev.Consistency = string(note), proof
	sealed, err := evaluate.Seal(ev)
	if err != nil {
		return raw, err
	}
	return sealed, nil
}
