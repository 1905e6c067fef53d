package translog

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

func TestAnOpaqueEntryIsKeptAsItIs(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	p := &proposal{opaque: [][]byte{nil, []byte("\x00 not JSON"), bytes.Repeat([]byte{7}, MaxEntry)}}
	r.commit(t, p)
	v := r.Released()
	for i, want := range p.opaque {
		index := uint64(i)
		if p.got.Entries[i] != nil {
			t.Errorf("entry %d is an object", i)
		}
		got, err := v.Entry(index)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("entry %d has %d octets, %v; want %d", i, len(got), err, len(want))
		}
		path, err := v.Inclusion(index)
		if err != nil {
			t.Fatal(err)
		}
		if err := VerifyInclusion(index, v.Tree.Size, LeafHash(want), path, v.Tree.Root); err != nil {
			t.Error(err)
		}
	}
}

func TestAnOpaqueEntryThatIsTooLargeAddsNothing(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	var late *Tx
	p := &proposal{n: 1, prepare: func(tx *Tx) error {
		late = tx
		if err := tx.AppendOpaque(make([]byte, MaxEntry+1)); !errors.Is(err, ErrTooLarge) || tx.NextIndex() != 0 {
			t.Errorf("AppendOpaque = %v, next index %d", err, tx.NextIndex())
		}
		return nil
	}, finish: func(tx *Tx, _ *Committed) error {
		if err := tx.AppendOpaque(nil); err == nil {
			t.Error("an entry was appended in Finish")
		}
		return nil
	}}
	if err := r.Commit(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if err := late.AppendOpaque(nil); err == nil {
		t.Error("an entry was appended behind the commit")
	}
	if size := r.Released().Tree.Size; size != 1 {
		t.Errorf("size %d, want 1", size)
	}
}
