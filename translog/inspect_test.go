package translog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

func joinBundle(entries [][]byte) (b []byte) {
	for _, e := range entries {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(e))), e...)
	}
	return b
}

// FuzzParseBundle: what is accepted has as many entries as were asked for, and
// is what they make when they are written again.
func FuzzParseBundle(f *testing.F) {
	f.Add(joinBundle([][]byte{[]byte("one"), {}, []byte("three")}), 3)
	f.Add(joinBundle([][]byte{bytes.Repeat([]byte("x"), MaxEntry)}), 1)
	f.Add([]byte{0, 9, 1}, 1)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, b []byte, width int) {
		entries, err := ParseBundle(b, width)
		if err != nil {
			if !errors.Is(err, ErrBundle) {
				t.Errorf("%v", err)
			}
			return
		}
		if len(entries) != width || !bytes.Equal(joinBundle(entries), b) {
			t.Errorf("%d entries of %d octets make %d", len(entries), len(b), len(joinBundle(entries)))
		}
	})
}

// FuzzParseRowKey: a key is read as one that prints the same, or as none.
func FuzzParseRowKey(f *testing.F) {
	for _, k := range []RowKey{
		{Kind: RowEntry, Number: 7}, {Kind: RowSet, Number: 1 << 40, Log: 3}, {Kind: RowTile, Level: 2, Number: 9},
		{Kind: RowIdentity}, {Kind: RowHead}, {Kind: RowHeadNote, Log: 1}, {Kind: RowLatest}, {Kind: RowLatestNote},
		{Kind: RowHeld}, {Kind: RowHeldNote}, {Kind: RowPublished, Number: 1},
	} {
		if got := ParseRowKey(k.Bytes()); got != k {
			f.Errorf("%+v is read as %+v", k, got)
		}
		f.Add(k.Bytes())
	}
	f.Add([]byte("Lx\x00\x00\x00\x00f"))
	f.Fuzz(func(t *testing.T, key []byte) {
		k := ParseRowKey(key)
		if k.Kind != RowUnknown && !bytes.Equal(k.Bytes(), key) {
			t.Errorf("%x is read as %s, %x", key, k, k.Bytes())
		}
	})
}

// TestEveryRowOfALogHasItsKey reads the keys that a log writes.
func TestEveryRowOfALogHasItsKey(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	leaves := [][32]byte{{1}, {2}}
	r.commit(t, &proposal{n: 300, leaves: leaves})
	r.publishNow(t)
	lo, hi := AllRows()
	kinds := make(map[RowKind]int)
	for row, err := range r.store.Scan(lo, hi) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[ParseRowKey(row.Key).Kind]++
	}
	for kind, n := range map[RowKind]int{RowUnknown: 0, RowEntry: 300, RowSet: 300, RowTile: 1, RowPublished: 2, RowIdentity: 1, RowHead: 1, RowHeadNote: 1, RowLatest: 1, RowLatestNote: 1} {
		if kinds[kind] != n {
			t.Errorf("%d rows of kind %q, want %d", kinds[kind], kind, n)
		}
	}
	mark, ok, err := ReadMark(r.disk.FS(), "/data/marks", testOrigin, r.VerifierKey())
	if err != nil || !ok || mark != r.Released().Tree {
		t.Errorf("mark %+v, %v, %v", mark, ok, err)
	}
}
