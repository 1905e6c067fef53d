package durable

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// A look-up finds what Get finds, in the batch, the memtable and the tables, and in
// no table what is in none.
func TestALookupAgreesWithGet(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	key := func(i int) []byte { return fmt.Appendf(nil, "%05d", i) }
	fill := func(b *Batch, from int) { // and what was written before is deleted
		for i := from; i < 10_000; i += 10 {
			if err := errors.Join(b.Set(key(i), bytes.Repeat(key(i), i%400)), b.Delete(key(i-1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for from := 1; from < 3; from++ {
		b := s.NewBatch()
		fill(b, from)
		if err := errors.Join(b.Commit(), b.Close()); err != nil {
			t.Fatal(err)
		}
		if from == 1 {
			if err := s.db.Compact(t.Context(), []byte{0}, []byte{255}, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := s.NewBatch()
	defer b.Close()
	fill(b, 3)
	rows, err := b.Lookup()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := 0
	for i := range 10_010 {
		want, wantErr := b.Get(key(i))
		got, err := rows.Get(key(i))
		if !errors.Is(err, wantErr) || !bytes.Equal(got, want) {
			t.Fatalf("%d: %d octets, %v; Get has %d, %v", i, len(got), err, len(want), wantErr)
		}
		if err == nil {
			found++
		}
	}
	if found != 1000 {
		t.Errorf("%d rows are there", found)
	}
}

// A walk that was left in the middle of a range goes back for what it has passed.
func TestAWalkMayBeLeft(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := s.NewBatch()
	defer b.Close()
	for i := range 100 {
		if err := b.Set(fmt.Appendf(nil, "%02d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		w, err := b.Walk([]byte("10"), []byte("90"))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for range 10 {
			lo := rapid.IntRange(10, 90).Draw(t, "from")
			hi := rapid.IntRange(lo, 90).Draw(t, "to")
			most := rapid.IntRange(0, 5).Draw(t, "at most")
			next := lo
			for row, err := range w.Scan(fmt.Appendf(nil, "%02d", lo), fmt.Appendf(nil, "%02d", hi)) {
				if err != nil || string(row.Key) != fmt.Sprintf("%02d", next) {
					t.Fatalf("%s, %v instead of %d", row.Key, err, next)
				}
				if next++; next-lo == most {
					break
				}
			}
			if next != hi && next-lo != most {
				t.Fatalf("from %d to %d came %d", lo, hi, next-lo)
			}
		}
	})
}

// Both read what Scan reads, wherever the values lie: in the batch, in the memtable,
// or, as those of some size, in files of their own.
func TestWalksAndLengthsAgreeWithScans(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write := func(b *Batch, from int) {
		for i := from; i < 300; i += 3 {
			value := make([]byte, i*10)
			rand.Read(value)
			if err := b.Set(fmt.Appendf(nil, "%03d", i), value); err != nil {
				t.Fatal(err)
			}
		}
	}
	for from := range 2 {
		b := s.NewBatch()
		write(b, from)
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Close()
		if from == 0 {
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := s.NewBatch()
	defer b.Close()
	write(b, 2)
	w, err := b.Walk([]byte("000"), []byte("290"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, r := range [][2]string{
		{"005", "017"}, {"017", "018"}, {"018", "020"}, {"0205", "021"}, {"100", "100"}, {"100", "1001"}, {"1001", "101"},
		{"2", "290"}, {"050", "060"}, {"0551", "057"}, {"055", "056"}, {"289", "290"}, {"2895", "290"}, {"28", "29"},
	} {
		lo, hi := []byte(r[0]), []byte(r[1])
		var want, walked, lengths []byte
		for kv, err := range b.Scan(lo, hi) {
			if err != nil {
				t.Fatal(err)
			}
			want = fmt.Appendf(want, "%s %x\n", kv.Key, kv.Value)
			lengths = fmt.Appendf(lengths, "%s %d\n", kv.Key, len(kv.Value))
		}
		for kv, err := range w.Scan(lo, hi) {
			if err != nil {
				t.Fatal(err)
			}
			walked = fmt.Appendf(walked, "%s %x\n", kv.Key, kv.Value)
		}
		if !bytes.Equal(walked, want) {
			t.Errorf("from %s to %s a walk has %d octets, a scan %d", lo, hi, len(walked), len(want))
		}
		for kv, err := range b.ScanLengths(lo, hi) {
			if err != nil {
				t.Fatal(err)
			}
			line := fmt.Appendf(nil, "%s %d\n", kv.Key, kv.Length)
			if !bytes.HasPrefix(lengths, line) {
				t.Fatalf("%s, the scan has %.20s", line, lengths)
			}
			lengths = lengths[len(line):]
		}
		if len(lengths) > 0 {
			t.Errorf("not yielded: %s", lengths)
		}
	}
}
