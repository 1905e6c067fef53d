package indexer

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/internal/packed"
)

func drawnRow(t *rapid.T) *catalogueRow {
	some := func(name string) bool { return rapid.Bool().Draw(t, name) }
	row := &catalogueRow{URL: rapid.String().Draw(t, "url"), Format: rapid.Uint8().Draw(t, "format"), Held: some("held")}
	copy(row.Digest[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
	copy(row.GrantID[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "grant"))
	row.JournalEpoch, row.Revision = rapid.Uint64().Draw(t, "epoch"), rapid.Uint64().Draw(t, "revision")
	row.Modified, row.At = rapid.Int64().Draw(t, "modified"), rapid.Int64().Draw(t, "at")
	row.Entry, row.Place = rapid.Uint64().Draw(t, "entry"), rapid.IntRange(0, 1<<31-1).Draw(t, "place")
	if some("refused") {
		row.Reason = rapid.String().Draw(t, "reason")
	}
	if some("stored") {
		row.Segment, row.Offset, row.Length = rapid.Uint64().Draw(t, "segment"), rapid.Uint64().Draw(t, "offset"), rapid.Uint64().Draw(t, "length")
		row.File, row.DataKey, row.Log = rapid.Uint64().Draw(t, "file"), rapid.Uint32().Draw(t, "key"), rapid.Uint32().Draw(t, "log")
	}
	if some("purged") {
		row.Purged = &purgedPage{At: rapid.Int64().Draw(t, "purged at"), Step: rapid.Uint64().Draw(t, "step"), Place: rapid.IntRange(0, 1<<31-1).Draw(t, "place")}
	}
	return row
}

// TestRowsAreReadAsTheyWereWritten: and one that is cut short anywhere, or has something
// behind it, is read as nothing.
func TestRowsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(drawn *rapid.T) {
		row := drawnRow(drawn)
		told := &toldPage{Number: row.Revision, First: row.Entry, Gone: row.At}
		for _, pair := range [][2]pageRow{{row, new(catalogueRow)}, {told, new(toldPage)}} {
			wrote, read := pair[0], pair[1]
			raw := wrote.AppendRow(nil)
			if err := read.ParseRow(raw); err != nil || !reflect.DeepEqual(wrote, read) {
				drawn.Fatalf("%+v is read as %+v: %v", wrote, read, err)
			}
			for n := range raw {
				if err := read.ParseRow(raw[:n]); !errors.Is(err, packed.ErrDamaged) {
					drawn.Fatalf("%d octets of %x are read: %v", n, raw, err)
				}
			}
			if err := read.ParseRow(append(raw, 0)); !errors.Is(err, packed.ErrDamaged) {
				drawn.Fatalf("%x with an octet behind it is read: %v", raw, err)
			}
			raw[0] = '{'
			if err := read.ParseRow(raw); !errors.Is(err, packed.ErrDamaged) {
				drawn.Fatalf("a row of another form is read: %v", err)
			}
		}
	})
}

// FuzzPageRows reads any octets as rows: what is read is written and read again as it was.
func FuzzPageRows(f *testing.F) {
	f.Add((&catalogueRow{URL: site, Held: true, Revision: 300, At: -1, Purged: &purgedPage{Step: 2}}).AppendRow(nil))
	f.Add((&toldPage{Number: 300, First: 2, Gone: 1}).AppendRow(nil))
	f.Add([]byte{rowForm, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, pair := range [][2]pageRow{{new(catalogueRow), new(catalogueRow)}, {new(toldPage), new(toldPage)}} {
			if pair[0].ParseRow(raw) != nil {
				continue
			}
			if err := pair[1].ParseRow(pair[0].AppendRow(nil)); err != nil || !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%+v is read again as %+v: %v", pair[0], pair[1], err)
			}
		}
	})
}
