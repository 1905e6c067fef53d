package packed

import (
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatIsWrittenIsReadAndNoPartOfIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, n := rapid.String().Draw(t, "text"), rapid.Uint64().Draw(t, "n")
		signed, octet := rapid.Int64().Draw(t, "signed"), rapid.Byte().Draw(t, "octet")
		hash := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		row := binary.AppendVarint(AppendNumbers(AppendText([]byte{octet}, text), n, n>>1), signed)
		row = append(row, hash[:]...)
		read := func(row []byte) error {
			r := NewReader(row)
			o, s, a, b, c, h := r.Octet(), r.Text(), r.Number(), r.Below(1<<63), r.Signed(), r.Hash()
			if err := r.End(); err != nil {
				return err
			}
			if o != octet || s != text || a != n || b != n>>1 || c != signed || h != hash {
				t.Fatalf("%x is read as %d %q %d %d %d %x", row, o, s, a, b, c, h)
			}
			return nil
		}
		if err := read(row); err != nil {
			t.Fatal(err)
		}
		for cut := range row {
			if err := read(row[:cut]); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%d octets of %x: %v", cut, row, err)
			}
		}
		if err := read(append(row, 0)); !errors.Is(err, ErrDamaged) {
			t.Fatalf("with an octet behind it: %v", err)
		}
	})
}

// TestAFaultStays: what comes behind it is nothing, however much is there.
func TestAFaultStays(t *testing.T) {
	for _, row := range [][]byte{
		AppendNumbers(nil, 1<<63), // a text of that length
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, // no number
		{5, 'a'},
	} {
		r := NewReader(append(row, make([]byte, 100)...)[:len(row)])
		if s := r.Text(); s != "" || r.More() || r.Octet() != 0 || r.Number() != 0 || r.Signed() != 0 || len(r.Rest()) != 0 {
			t.Errorf("%x gives %q, and more", row, s)
		}
		if !errors.Is(r.Err(), ErrDamaged) || !errors.Is(r.End(), ErrDamaged) {
			t.Errorf("%x: %v, %v", row, r.Err(), r.End())
		}
	}
	r := NewReader(AppendNumbers(nil, 7, 7))
	if n := r.Below(8); n != 7 || r.Below(7) != 0 || r.Err() == nil {
		t.Errorf("below: %d, %v", n, r.Err())
	}
}
