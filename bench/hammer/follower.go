package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/transparency-dev/tessera/client"

	"github.com/uzpif-oi/uzpif-oi/translog"
)

// follow looks at the checkpoint all the time. Each one must go on from the one
// before, and those that commits returned must lie in it.
func (w *watcher) follow(ctx context.Context) {
	for turn := 0; ctx.Err() == nil; turn++ {
		w.checkpoint(ctx, turn)
		w.drainReceipts(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(between):
		}
	}
}

// checkpoint fetches the newest checkpoint and takes it if it is proven.
func (w *watcher) checkpoint(ctx context.Context, turn int) {
	began := time.Now()
	raw, err := w.get(ctx, "checkpoint")
	if err != nil {
		w.failed(ctx, opCheckpoint, "checkpoint", err)
		return
	}
	t, err := translog.OpenNote(raw, w.vkey)
	if err != nil {
		w.tally.accuse("checkpoint: %v", err)
		return
	}
	if last := w.latest.Load(); last != nil {
		if t.Size < last.Size {
			w.tally.accuse("the checkpoint went back from size %d to %d", last.Size, t.Size)
			return
		}
		// In turn, by tiles and by the proof that the log serves.
		if !w.consistent(ctx, opCheckpoint, *last, t, turn%2 == 0) {
			return
		}
	}
	w.latest.Store(&t)
	w.tally.did(opCheckpoint, began)
}

// drainReceipts proves some checkpoints of commits, of those that what was
// published has reached. The others come again with the next.
func (w *watcher) drainReceipts(ctx context.Context) {
	latest := w.latest.Load()
	for range 4 {
		select {
		case r := <-w.receipts:
			if latest == nil || r.Size > latest.Size {
				w.offer(r)
				return
			}
			began := time.Now()
			if w.consistent(ctx, opReceipt, r, *latest, false) {
				w.tally.did(opReceipt, began)
			}
		default:
			return
		}
	}
}

// offer hands a checkpoint of a commit to the follower, unless it has enough.
func (w *watcher) offer(t translog.Tree) {
	select {
	case w.receipts <- t:
	default:
	}
}

// consistent proves that to goes on from from.
func (w *watcher) consistent(ctx context.Context, op int, from, to translog.Tree, byTiles bool) bool {
	what := fmt.Sprintf("from size %d to %d", from.Size, to.Size)
	var path [][32]byte
	var err error
	switch {
	case from.Size == 0 || from.Size == to.Size: // the path is empty
	case byTiles:
		path, err = w.pathOf(to.Size, func(p *client.ProofBuilder) ([][]byte, error) {
			return p.ConsistencyProof(ctx, from.Size, to.Size)
		})
	default:
		var raw []byte
		raw, err = w.get(ctx, fmt.Sprintf("proof/consistency?from=%d&to=%d", from.Size, to.Size))
		if err == nil {
			var p translog.ConsistencyProof
			if err := json.Unmarshal(raw, &p); err != nil || p.From != from.Size || p.To != to.Size {
				w.tally.accuse("%s: a malformed proof, or one of other sizes (%v)", what, err)
				return false
			}
			path = translog.Path(p.Hashes)
		}
	}
	if err != nil {
		w.failed(ctx, op, what, err)
		return false
	}
	if err := translog.VerifyConsistency(from.Size, to.Size, path, from.Root, to.Root); err != nil {
		w.tally.accuse("%v", err)
		return false
	}
	return true
}
