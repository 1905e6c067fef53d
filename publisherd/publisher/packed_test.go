package publisher

import (
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/packed"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func drawnHash(t *rapid.T, name string) (h envelope.Hash) {
	copy(h[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, name))
	return h
}

func TestPackedRowsComeBack(t *testing.T) {
	ops := rapid.SampledFrom([]translog.Op{translog.OpPut, translog.OpTombstone})
	rapid.Check(t, func(t *rapid.T) {
		page := ackedPage{
			URL: rapid.String().Draw(t, "url"), Digest: drawnHash(t, "digest"), Op: ops.Draw(t, "op"),
			JournalEpoch: rapid.Uint64().Draw(t, "epoch"), Revision: rapid.Uint64().Draw(t, "revision"),
			Decision: rapid.SampledFrom([]translog.Decision{translog.Include, translog.Update, translog.DeleteAck, translog.Exclude}).Draw(t, "decision"),
			Reason:   rapid.StringN(0, 64, 64).Draw(t, "reason"), Receipt: drawnHash(t, "receipt"),
			Set: rapid.IntRange(0, 3).Draw(t, "set"), Place: rapid.IntRange(0, 1<<20).Draw(t, "place"),
		}
		row := page.append(nil)
		if got, err := unpackAcked(row); err != nil || got != page {
			t.Fatalf("%+v, %v, want %+v", got, err, page)
		}
		if cut := rapid.IntRange(0, len(row)-1).Draw(t, "cut"); !damaged(unpackAcked(row[:cut])) {
			t.Fatalf("%d octets of %d are taken", cut, len(row))
		}
		if !damaged(unpackAcked(append(row, 0))) {
			t.Fatal("what follows the row is taken")
		}

		known := pageRow{
			URL: rapid.String().Draw(t, "url"), Location: rapid.String().Draw(t, "location"), Source: drawnHash(t, "source"), Digest: drawnHash(t, "digest"),
			Fingerprint: drawnHash(t, "fingerprint"), Format: rapid.Uint8().Draw(t, "format"), Size: rapid.IntRange(0, 1<<40).Draw(t, "size"),
			Revision: rapid.Uint64().Draw(t, "revision"), Deleted: rapid.Bool().Draw(t, "deleted"), Denied: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "denied"),
		}
		if len(known.Denied) == 0 {
			known.Denied = nil
		}
		if rapid.Bool().Draw(t, "changed") {
			known.Modified = envelope.At(time.Unix(rapid.Int64Range(-1<<32, 1<<36).Draw(t, "modified"), 0))
		}
		row = known.append(nil)
		if got, err := unpackPage(row); err != nil || !reflect.DeepEqual(got, known) {
			t.Fatalf("%+v, %v, want %+v", got, err, known)
		}
		if cut := rapid.IntRange(0, len(row)-1).Draw(t, "cut of the page"); !damaged(unpackPage(row[:cut])) {
			t.Fatalf("%d octets of %d are taken", cut, len(row))
		}
		if !damaged(unpackPage(append(row, 0))) {
			t.Fatal("what follows the page's row is taken")
		}

		p := pendingBatch{Manifest: rapid.SliceOf(rapid.Byte()).Draw(t, "manifest")}
		for range rapid.IntRange(0, 20).Draw(t, "items") {
			p.Items = append(p.Items, offered{
				URL: rapid.String().Draw(t, "url"), Digest: drawnHash(t, "digest"), Op: ops.Draw(t, "op"),
				Format: rapid.Uint8().Draw(t, "format"), Revision: rapid.Uint64().Draw(t, "revision"),
			})
		}
		row, err := p.pack()
		if err != nil {
			t.Fatal(err)
		}
		got, err := unpackPending(row)
		if err != nil || string(got.Manifest) != string(p.Manifest) || !reflect.DeepEqual(got.Items, p.Items) {
			t.Fatalf("%+v, %v, want %+v", got, err, p)
		}
		if cut := rapid.IntRange(0, len(row)-1).Draw(t, "cut of the batch"); !damaged(unpackPending(row[:cut])) {
			t.Fatalf("%d octets of %d are taken", cut, len(row))
		}
	})
}

func damaged[T any](_ T, err error) bool { return errors.Is(err, packed.ErrDamaged) }

// A damaged row of the store must end in an error, and in nothing else.
func FuzzPackedRows(f *testing.F) {
	page := ackedPage{URL: "https://example.com/", Decision: translog.Include}
	f.Add(page.append(nil))
	f.Add((&pageRow{URL: "https://example.com/", Location: "index.html", Denied: []string{"archive"}}).append(nil))
	row, err := (&pendingBatch{Manifest: []byte("{}"), Items: []offered{{URL: "https://example.com/"}}}).pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(row)
	f.Fuzz(func(t *testing.T, row []byte) {
		if page, err := unpackAcked(row); err == nil {
			if again, err := unpackAcked(page.append(nil)); err != nil || again != page {
				t.Errorf("%+v, %v, want %+v", again, err, page)
			}
		}
		if page, err := unpackPage(row); err == nil {
			if again, err := unpackPage(page.append(nil)); err != nil || !reflect.DeepEqual(again, page) {
				t.Errorf("%+v, %v, want %+v", again, err, page)
			}
		}
		if p, err := unpackPending(row); (err == nil) != (p != nil) {
			t.Errorf("%v, %v", p, err)
		}
	})
}

// TestALargeCollectionHasLargerBatches up to what an indexer takes, so that the state of
// a million pages is not gone through for every 4,000 of them.
func TestALargeCollectionHasLargerBatches(t *testing.T) {
	for pages, want := range map[uint64]int{0: 4000, 1: 4000, 256_000: 4000, 256_064: 4001, 511_999: 7999, 1_000_000: 8000, 1 << 63: 8000} {
		if n := itemsFor(pages); n != want {
			t.Errorf("%d pages: %d items, want %d", pages, n, want)
		}
	}
	d := &drafter{most: itemsFor(1_000_000), limits: &oiv1.Limits{BatchItems: 5000}, fewer: new(atomic.Uint32)}
	for asked, want := range map[uint32]int{0: 5000, 1: 256, 1000: 1000, 6000: 5000, 1<<32 - 1: 5000} {
		d.fewer.Store(asked)
		if n := d.maxItems(); n != want {
			t.Errorf("%d items for an indexer that takes 5000 and asks for %d, want %d", n, asked, want)
		}
	}
}
