package durable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestTablesEndWhereAscendingPrefixesDo: Pebble is told the next bound above a key, of
// those prefixes that somebody still writes below.
func TestTablesEndWhereAscendingPrefixesDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &Store{ascending: new(ascending)}
		key := func(what string) []byte {
			return rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 'b', 0xff}), 1, 4).Draw(t, what)
		}
		type held struct {
			prefix []byte
			done   func()
		}
		var all []held
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			if len(all) > 0 && rapid.Bool().Draw(t, "done") {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				all[i].done()
				all[i].done() // counts once
				all = append(all[:i], all[i+1:]...)
				continue
			}
			p := key("prefix")
			all = append(all, held{p, s.Ascending(p)})
		}
		at := key("key")
		var want []byte
		for _, h := range all {
			for _, b := range [][]byte{h.prefix, PrefixEnd(h.prefix)} {
				if b != nil && PrefixEnd(h.prefix) != nil && bytes.Compare(b, at) > 0 && (want == nil || bytes.Compare(b, want) < 0) {
					want = b
				}
			}
		}
		if _, end, err := s.ascending.policy(at); err != nil || !bytes.Equal(end, want) {
			t.Fatalf("behind %q it ends before %q, want %q, %v", at, end, want, err)
		}
	})
}

// TestAscendingPrefixesAreBounded, and those that are let go make room for others.
func TestAscendingPrefixesAreBounded(t *testing.T) {
	s := &Store{ascending: new(ascending)}
	var done []func()
	for i := range 3 * mostAscending {
		done = append(done, s.Ascending([]byte(fmt.Sprintf("%04d", i))))
	}
	if n := len(s.ascending.bounds); n != 2*mostAscending {
		t.Errorf("%d bounds", n)
	}
	for _, d := range done {
		d()
	}
	if len(s.ascending.users)+len(s.ascending.bounds) > 0 {
		t.Errorf("%d prefixes are left", len(s.ascending.users))
	}
	defer s.Ascending([]byte("more"))()
	if _, end, _ := s.ascending.policy([]byte("a")); string(end) != "more" {
		t.Errorf("it ends before %q", end)
	}
}

// TestWhatAscendsIsNotMergedAgain: rows that come by ascending key below several prefixes,
// a few of each at a time, are written once to a table, and not once more for each few
// times that others come; what is read is the same.
func TestWhatAscendsIsNotMergedAgain(t *testing.T) {
	t.Parallel()
	merged := func(ascending bool) (written, flushed uint64) {
		s, err := Open(t.TempDir(), Options{MemTableBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		prefixes := [][]byte{[]byte("a/"), []byte("b/"), []byte("c/")}
		if ascending {
			defer s.Ascending(prefixes...)()
		}
		r := rand.New(rand.NewPCG(1, 2))
		value := make([]byte, 200)
		const rounds, some = 120, 500
		for i := range rounds {
			b := s.NewBlindBatch()
			for j := range some {
				for _, p := range prefixes {
					for k := range value {
						value[k] = byte(r.Uint32())
					}
					if err := b.Set(binary.BigEndian.AppendUint32(bytes.Clone(p), uint32(i*some+j)), value); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			b.Close()
		}
		rows := 0
		for _, err := range s.Scan([]byte("a"), []byte("d")) {
			if rows++; err != nil {
				t.Fatal(err)
			}
		}
		if rows != rounds*some*len(prefixes) {
			t.Errorf("%d rows", rows)
		}
		m := s.db.Metrics()
		for _, l := range m.Levels[1:] {
			written += l.TableBytesCompacted
		}
		return written, m.Levels[0].TableBytesFlushed
	}
	mixed, _ := merged(false)
	apart, flushed := merged(true)
	if apart > flushed/4 || mixed < 2*apart {
		t.Errorf("of %d octets %d are merged, and %d where nothing is said", flushed, apart, mixed)
	}
}
