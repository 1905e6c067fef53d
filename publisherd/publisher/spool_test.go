package publisher

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// TestASpoolGivesWhatWasPutInOrNothing in whatever order it is asked, and nothing that
// the disk has changed.
func TestASpoolGivesWhatWasPutInOrNothing(t *testing.T) {
	t.Parallel()
	type page struct {
		revision uint64
		h        [32]byte
		digest   envelope.Hash
		payload  []byte
	}
	r := rand.New(rand.NewPCG(3, 4))
	s := newSpool(t.TempDir(), 0)
	var pages []page
	revision := uint64(5)
	for i := range 3000 {
		revision += 1 + r.Uint64N(3)
		p := page{revision, urlHash(fmt.Sprint(i)), envelope.Hash{byte(i), byte(i >> 8)}, bytes.Repeat([]byte{byte(i)}, r.IntN(400))}
		if r.IntN(100) == 0 {
			p.payload = bytes.Repeat([]byte(fmt.Sprint(i)), 30_000)
		}
		s.add(p.revision, p.h, p.digest, p.payload)
		pages = append(pages, p)
	}
	s.add(revision, urlHash("again"), envelope.Hash{}, nil) // not in order
	if got := (&spoolReader{s: s}).payload(pages[7].revision, pages[7].h, pages[7].digest); got != nil {
		t.Error("it gives what is not to be read yet")
	}
	s.show()
	wants := func(rd *spoolReader, p page) {
		t.Helper()
		got := rd.payload(p.revision, p.h, p.digest)
		if len(p.payload) > 0 && !bytes.Equal(got, p.payload) || len(p.payload) == 0 && got == nil {
			t.Fatalf("revision %d: %d octets, want %d", p.revision, len(got), len(p.payload))
		}
	}
	inOrder, some, drawn := &spoolReader{s: s}, &spoolReader{s: s}, &spoolReader{s: s}
	for i, p := range pages {
		wants(inOrder, p)
		if i%700 == 0 {
			wants(some, p)
		}
		wants(drawn, pages[r.IntN(len(pages))])
	}
	p := pages[100]
	for what, got := range map[string][]byte{
		"of a revision that there is not": inOrder.payload(p.revision-1, p.h, p.digest),
		"before the first":                inOrder.payload(1, p.h, p.digest),
		"behind the last":                 inOrder.payload(revision+1, p.h, p.digest),
		"of another page":                 inOrder.payload(p.revision, urlHash("?"), p.digest),
		"with another digest":             inOrder.payload(p.revision, p.h, envelope.Hash{}),
	} {
		if got != nil {
			t.Errorf("a payload %s", what)
		}
	}
	wants(inOrder, p)
	damaged := 0
	for i := int64(0); i < s.end; i += 997 {
		var b [1]byte
		if _, err := s.file.ReadAt(b[:], i); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0x10
		if _, err := s.file.WriteAt(b[:], i); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pages {
		switch got := inOrder.payload(p.revision, p.h, p.digest); {
		case got == nil:
			damaged++
		case !bytes.Equal(got, p.payload):
			t.Fatalf("revision %d: other octets than were put in", p.revision)
		}
	}
	if damaged == 0 || damaged == len(pages) {
		t.Errorf("%d of %d are gone with what was damaged", damaged, len(pages))
	}
	s.close()
	if inOrder.payload(p.revision, p.h, p.digest) != nil {
		t.Error("a payload out of a spool that has gone")
	}
}

func TestASpoolIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSpool(dir, 4<<20)
	for i := range uint64(100) {
		s.add(i+1, [32]byte{byte(i)}, envelope.Hash{}, make([]byte, 50<<10))
	}
	s.add(101, [32]byte{}, envelope.Hash{}, make([]byte, spoolPage+1))
	s.show()
	if s.end > 1<<20 || s.end < 900<<10 {
		t.Errorf("%d octets of a quarter of what is free", s.end)
	}
	rd := &spoolReader{s: s}
	if rd.payload(20, [32]byte{19}, envelope.Hash{}) == nil || rd.payload(21, [32]byte{20}, envelope.Hash{}) != nil {
		t.Error("not what has room")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	var all spools
	first := all.begin("a", dir, 0)
	first.add(1, [32]byte{}, envelope.Hash{}, nil)
	all.begin("a", dir, 0) // of a small scan, which has no use for it
	third := all.begin("a", dir, 0)
	if first.over {
		t.Error("gone, although no other has use for the room")
	}
	if third.add(1, [32]byte{}, envelope.Hash{}, nil); !first.over || third.over {
		t.Error("two are kept")
	}
	if all.close(); !third.over {
		t.Error("it outlives the publisher")
	}
	// Where no file can be made, all is as without.
	lost := newSpool("/nowhere/at/all", 0)
	lost.add(1, [32]byte{}, envelope.Hash{}, nil)
	lost.show()
	if rd := (&spoolReader{s: lost}); rd.payload(1, [32]byte{}, envelope.Hash{}) != nil {
		t.Error("a payload out of no file")
	}
}
