package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// maxProof bounds a proof, in octets: 2 hashes a level of the deepest tree.
const maxProof = 64 << 10

// Checkpoint fetches the published checkpoint note and verifies it by the log's
// key. If it has not changed since it was fetched before, it is not sent again.
// Errors: ErrAbsent before the log publishes for the first time;
// translog.ErrNote; those of the package.
func (c *Client) Checkpoint(ctx context.Context) (translog.Tree, []byte, error) {
	c.noteMu.Lock()
	old, tag := c.note, c.tag
	c.noteMu.Unlock()
	r, err := c.fetch(ctx, "/checkpoint", tag, translog.MaxNote)
	if err != nil {
		return translog.Tree{}, nil, err
	}
	if r.body == nil && tag != "" {
		r.body = old
	}
	tree, err := translog.OpenNote(r.body, c.vkey)
	if err != nil {
		return translog.Tree{}, nil, fmt.Errorf("%s/checkpoint: %w", c.base, err)
	}
	c.noteMu.Lock()
	c.note, c.tag = r.body, r.tag
	c.noteMu.Unlock()
	return tree, r.body, nil
}

// CheckpointOf is Checkpoint for a tree of at least size entries: a log
// publishes what it receipted up to a second later. It asks every interval, and
// after patience returns what it has, which may be smaller.
func (c *Client) CheckpointOf(ctx context.Context, size uint64, patience, interval time.Duration) (translog.Tree, []byte, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		tree, note, err := c.Checkpoint(ctx)
		if err == nil && tree.Size >= size || err != nil && !errors.Is(err, ErrAbsent) {
			return tree, note, err
		}
		again := time.NewTimer(interval)
		select {
		case <-late.C:
			again.Stop()
			return tree, note, err
		case <-ctx.Done():
			again.Stop()
			return tree, nil, ctx.Err()
		case <-again.C:
		}
	}
}

// SignedCheckpoint fetches the published checkpoint as an artefact. It is not
// verified.
func (c *Client) SignedCheckpoint(ctx context.Context) ([]byte, error) {
	return c.get(ctx, "/signed-checkpoint.json", envelope.MaxSize)
}

// SignedCheckpointAt fetches the artefact that was published first at that
// size. It is not verified. Errors: ErrAbsent if none was.
func (c *Client) SignedCheckpointAt(ctx context.Context, size uint64) ([]byte, error) {
	return c.get(ctx, fmt.Sprintf("/signed-checkpoint/%d.json", size), envelope.MaxSize)
}

// Entry fetches one entry. It is not verified; Entries is for many.
func (c *Client) Entry(ctx context.Context, index uint64) ([]byte, error) {
	return c.get(ctx, fmt.Sprintf("/entry/%d.json", index), translog.MaxEntry)
}

// Tile fetches the first width hashes of a tile. They are not verified.
func (c *Client) Tile(ctx context.Context, level int, index uint64, width int) ([]byte, error) {
	path := translog.TileURL(level, index, width)
	b, err := c.get(ctx, path, int64(32*width))
	if err == nil && len(b) != 32*width {
		err = fmt.Errorf("%w: %s%s has %d octets", ErrMalformed, c.base, path, len(b))
	}
	return b, err
}

// Bundle fetches the first width entries of a bundle. They are not verified.
func (c *Client) Bundle(ctx context.Context, index uint64, width int) ([][]byte, error) {
	path := translog.TileURL(translog.EntriesLevel, index, width)
	b, err := c.get(ctx, path, translog.MaxBundle)
	if err != nil {
		return nil, err
	}
	entries, err := translog.ParseBundle(b, width)
	if err != nil {
		return nil, fmt.Errorf("%w: %s%s: %w", ErrMalformed, c.base, path, err)
	}
	return entries, nil
}

// Inclusion fetches the proof for entry index in the tree of that size. It is
// not verified.
func (c *Client) Inclusion(ctx context.Context, index, size uint64) ([][32]byte, error) {
	var p translog.InclusionProof
	if err := c.proof(ctx, fmt.Sprintf("/proof/inclusion?index=%d&size=%d", index, size), &p); err != nil {
		return nil, err
	}
	if p.Index != index || p.Size != size {
		return nil, fmt.Errorf("%w: inclusion proof of %s: of entry %d at size %d, asked for %d at %d", ErrMalformed, c.base, p.Index, p.Size, index, size)
	}
	return translog.Path(p.Hashes), nil
}

// Consistency fetches the proof between two sizes. It is not verified. Errors:
// ErrAbsent if the log does not publish a tree of size to.
func (c *Client) Consistency(ctx context.Context, from, to uint64) ([][32]byte, error) {
	var p translog.ConsistencyProof
	if err := c.proof(ctx, fmt.Sprintf("/proof/consistency?from=%d&to=%d", from, to), &p); err != nil {
		return nil, err
	}
	if p.From != from || p.To != to {
		return nil, fmt.Errorf("%w: consistency proof of %s: from size %d to %d, asked for %d to %d", ErrMalformed, c.base, p.From, p.To, from, to)
	}
	return translog.Path(p.Hashes), nil
}

// proof accepts the one form that a log writes.
func (c *Client) proof(ctx context.Context, path string, into any) error {
	b, err := c.get(ctx, path, maxProof)
	if err != nil {
		return err
	}
	if err := envelope.DecodeCanonical(b, into); err != nil {
		return fmt.Errorf("%w: %s%s: %w", ErrMalformed, c.base, path, err)
	}
	return nil
}

func (c *Client) get(ctx context.Context, path string, limit int64) ([]byte, error) {
	r, err := c.fetch(ctx, path, "", limit)
	return r.body, err
}
