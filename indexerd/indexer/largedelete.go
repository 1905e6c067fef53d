package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// moveFiles seals anew, under the new data key, the files of large pages that
// stay: one file a step. A step that was cut off leaves an orphan.
func (w *deleter) moveFiles(ctx context.Context) error {
	var stay [][]byte
	err := eachPage(w.x.store, w.SID, func(key []byte, row *catalogueRow) error {
		if row.Held && row.File != 0 && row.DataKey < w.DataKey {
			stay = append(stay, bytes.Clone(key))
		}
		return nil
	})
	for _, key := range stay {
		if err == nil {
			err = w.x.store.Room() // to copy what stays needs some
		}
		if err == nil {
			err = w.moveFile(ctx, key)
		}
	}
	return err
}

// moveFile moves the file of one catalogue row. The row names it once it is
// durable.
func (w *deleter) moveFile(ctx context.Context, key []byte) error {
	var row catalogueRow
	if ok, err := readRow(w.x.store, key, &row); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("row %q is there: %t", key, ok))
	}
	from := largeName{w.SID, row.File, [32]byte(key[len(key)-32:])}
	to := from
	to.file = w.x.segment.Add(1)
	w.x.large.lease(to)
	defer w.x.large.release(to)
	if err := w.copyFile(to, from, row.DataKey); err != nil {
		return fmt.Errorf("file %d: %w", from.file, err)
	}
	b := w.x.store.NewBatch()
	row.File, row.DataKey = to.file, w.DataKey
	err := errors.Join(
		writeRow(b, key, &row), b.Delete(heldKey(w.SID, from.file)),
		durable.WriteJSON(b, heldKey(w.SID, to.file), heldRow{At: row.At, Page: to.h}),
	)
	if err == nil {
		err = w.commit(ctx, b)
	}
	return errors.Join(err, b.Close())
}

// copyFile opens what is sealed under the key of one generation and seals it
// under the new one. It holds three chunks.
func (w *deleter) copyFile(to, from largeName, generation uint32) (err error) {
	frame, err := w.x.large.open(w.x.keys, w.rec, from, generation)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, frame.Close()) }()
	a, err := w.x.keys.aead(w.Publisher, w.Series, w.DataKey, true)
	if err != nil {
		return err
	}
	file, err := w.x.large.create(to)
	if err != nil {
		return err
	}
	seal, err := newLargeWriter(file, newLargeSeal(a, w.Publisher, w.Series, to.file))
	if err == nil {
		_, err = io.Copy(seal, frame)
	}
	if err == nil {
		err = seal.Close()
	}
	if err != nil {
		return errors.Join(err, file.Drop())
	}
	return file.Keep()
}

// dropFiles removes the files of the series that its catalogue does not name.
// The steps before it are durable, and nothing else is committed in the series
// meanwhile, so that the database is what counts. What a session is staging is
// not named either, but will be refused, and is sealed under a key that goes.
func (w *deleter) dropFiles(ctx context.Context) error {
	if err := w.x.tender.pause(ctx); err != nil {
		return err
	}
	all, err := w.x.large.list(w.SID)
	if err != nil {
		return err
	}
	for _, n := range all {
		if w.x.large.leased(n) {
			continue
		}
		alive, err := n.named(w.x.store)
		if err == nil && !alive {
			err = w.x.large.remove(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
